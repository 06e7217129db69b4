"""PBS and Torque: a task of pbsdsh, or the script of a job, which runs on the first of its hosts only. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.reading import Variables, as_name, port_for

GRACE = 8.0  # kill_delay is 10 s by default
SCRIPT = "1"  # the number of the script among the tasks of the job


def detect(environ: Mapping[str, str]) -> Hints:
    """`PBS_NODEFILE` is the content of that file: one line per process."""
    job = job_of(environ)
    hosts = list(dict.fromkeys(environ["PBS_NODEFILE"].split()))
    general = Hints(job_id=job, job_source="PBS_JOBID", log_dir=f"log/{job}", grace=GRACE)
    if len(hosts) <= 1:
        return general
    if environ.get("PBS_TASKNUM", SCRIPT) == SCRIPT:
        alone = f"running on this machine alone, not on the {len(hosts)} hosts of job {job}"
        return general._replace(alone=f"this is the job's script; {alone}")
    rank = Variables("PBS", environ).rank("PBS_NODENUM", len(hosts), "the hosts in PBS_NODEFILE")
    master = endpoint(hosts[0], str(port_for(job.partition(".")[0])))
    return general._replace(
        source="PBS_NODEFILE", nodes=len(hosts), rank=rank, rank_source="PBS_NODENUM", master=master
    )


def job_of(environ: Mapping[str, str]) -> str:
    """Return the job's id; `1234[3].pbs01`, a job of an array, as `1234_3.pbs01`."""
    return as_name(environ["PBS_JOBID"].replace("[", "_").replace("]", ""))
