"""Indexed Job of Kubernetes: a pod knows its index, but not the number of pods: --nnodes must say it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import HOSTS, Hints
from flota.platforms.reading import OWN_PORT, POD_GRACE, Variables, as_name

ALONE = "no variable says how many pods there are; running on this machine alone (--nnodes N or FLOTA_NNODES uses all)"


def detect(environ: Mapping[str, str]) -> Hints:
    index = Variables("Indexed Job", environ).number("JOB_COMPLETION_INDEX")
    pod = environ.get("HOSTNAME", "")
    name = pod.removesuffix(f"-{index}") if pod.endswith(f"-{index}") else ""
    master = endpoint(f"{name}-0.{find_service(environ) or name}", str(OWN_PORT)) if name else ""
    return Hints(
        *("HOSTNAME", 0, index, "JOB_COMPLETION_INDEX", master),
        job_id=as_name(name),
        job_source="HOSTNAME",
        grace=POD_GRACE,
        alone=ALONE,
    )


def find_service(environ: Mapping[str, str]) -> str:
    """Return the Service that this pod's full name has: POD.SERVICE.NAMESPACE.svc… By convention it is the Job's."""
    pod = f"{environ.get('HOSTNAME', '')}."
    names = (name for line in environ.get(HOSTS, "").splitlines() for name in line.partition("#")[0].split()[1:])
    return next((name.removeprefix(pod).partition(".")[0] for name in names if name.startswith(pod)), "")
