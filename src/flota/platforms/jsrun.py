"""jsrun, the launcher of IBM's LSF systems: one process per machine, or one per worker. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.lsf import GRACE, hosts_of, job_of
from flota.platforms.reading import Variables, of_task, port_for

NAMES = ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE")


def detect(environ: Mapping[str, str]) -> Hints:
    hints, job = of_task(Variables("jsrun", environ), *NAMES), job_of(environ)
    hosts = hosts_of(environ)[1:]  # the first is the batch host, which runs no processes
    master = endpoint(hosts[0], str(port_for(environ.get("LSB_JOBID", "")))) if hosts and hints.nodes > 1 else ""
    log_dir = f"log/{job}" if job else ""
    return hints._replace(
        master=master, master_source="LSB_MCPU_HOSTS", job_id=job, job_source="LSB_JOBID", log_dir=log_dir, grace=GRACE
    )
