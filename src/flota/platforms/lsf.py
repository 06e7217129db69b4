"""LSF: the script of a job, which runs on the first of its hosts only. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.platforms import Hints
from flota.platforms.reading import as_name

GRACE = 8.0  # SIGKILL follows after 10 s


def detect(environ: Mapping[str, str]) -> Hints:
    hosts, job = hosts_of(environ), job_of(environ)
    several = f"running on this machine alone, not on the {len(hosts)} hosts of job {job}"
    alone = f"this is the job's script; {several}" if len(hosts) > 1 else ""
    return Hints(job_id=job, job_source="LSB_JOBID", log_dir=f"log/{job}", grace=GRACE, alone=alone)


def hosts_of(environ: Mapping[str, str]) -> list[str]:
    """Return the hosts of `gpu01 2 gpu02 2`, where numbers are slots."""
    return environ.get("LSB_MCPU_HOSTS", "").split()[::2]


def job_of(environ: Mapping[str, str]) -> str:
    """Return the job's id; of an array, with the index, which is 0 for other jobs."""
    index = environ.get("LSB_JOBINDEX", "0")
    return as_name(environ.get("LSB_JOBID", "") + (f"_{index}" if index != "0" else ""))
