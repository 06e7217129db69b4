"""JobSet of Kubernetes: Indexed Jobs with names of their own, and a Service with the name of the set. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.indexedjob import ALONE, find_service
from flota.platforms.reading import OWN_PORT, POD_GRACE, Variables, as_name


def detect(environ: Mapping[str, str]) -> Hints | None:
    name = environ.get("JOBSET_NAME") or find_service(environ)
    job, replica = split_pod(environ.get("HOSTNAME", ""), name, environ["JOB_COMPLETION_INDEX"])
    if not (job or environ.get("JOBSET_NAME")):
        return None  # a plain Indexed Job
    index = Variables("JobSet", environ).number("JOB_COMPLETION_INDEX")
    source = "JOBSET_NAME" if environ.get("JOBSET_NAME") else "HOSTNAME"
    # How many pods a replica has is in no variable, so only pods of the first know their rank.
    return Hints(
        *(source, 0, index if replica == "0" else -1, "JOB_COMPLETION_INDEX"),
        master=endpoint(f"{name}-{job}-0-0.{name}", str(OWN_PORT)) if job else "",
        job_id=as_name(name),
        job_source=source,
        grace=POD_GRACE,
        alone=ALONE,
    )


def split_pod(pod: str, name: str, index: str) -> tuple[str, str]:
    """Return the names of the job and of the replica of a pod, which is named SET-JOB-REPLICA-INDEX."""
    start, end = f"{name}-", f"-{index}"
    if not (pod.startswith(start) and pod.endswith(end)):
        return "", ""
    job, _, replica = pod[len(start) : -len(end)].rpartition("-")
    return (job, replica) if job and replica.isdecimal() else ("", "")
