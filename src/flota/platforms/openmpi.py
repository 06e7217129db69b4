"""Open MPI: `mpirun -N 1 flota train.py`, or one process per worker. No variable names the host of rank 0. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint, split_endpoint
from flota.platforms import Hints, lsf, pbs, slurm
from flota.platforms.reading import Variables, as_name, of_task, port_for

RANK, SIZE = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
LOCAL_RANK, LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
GRACE = 1.0  # mpirun kills less than 2 s after SIGTERM
JOBS = {"SLURM_JOB_ID": slurm.job_of, "LSB_JOBID": lsf.job_of, "PBS_JOBID": pbs.job_of}  # of the scheduler outside
PRRTE = "prterun-"  # begins the name of a job of Open MPI 5: prterun-HOST-PID@1


def detect(environ: Mapping[str, str]) -> Hints:
    hints = of_task(Variables("Open MPI", environ), RANK, SIZE, LOCAL_RANK, LOCAL_SIZE)
    source = next((name for name in JOBS if environ.get(name)), "PMIX_NAMESPACE")
    job = JOBS[source](environ) if source in JOBS else as_name(environ.get(source, ""))
    # Of mpirun, not of the allocation, which may run several.
    port = port_for(environ.get("PMIX_NAMESPACE") or job)
    host, host_source = find_first_host(environ)
    master = endpoint(host, str(port)) if host and hints.nodes > 1 else ""
    return hints._replace(
        master=master,
        master_source=host_source,
        job_id=job,
        job_source=source,
        log_dir=f"log/{job}" if source in JOBS else "",
        grace=GRACE,
    )


def find_first_host(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the host that most likely runs rank 0, and the variable that names it: the first host of an allocation,
    else the one that runs mpirun."""
    # Open MPI 4: 2142175232.0;tcp://10.0.0.1,10.1.0.1:57007
    daemon = environ.get("OMPI_MCA_orte_hnp_uri", "").partition("tcp://")[2].rpartition(":")[0]
    slurm_hosts = "SLURM_JOB_NODELIST"
    hosts = {
        slurm_hosts: Variables("Slurm", environ).hosts(slurm_hosts)[0] if environ.get(slurm_hosts) else "",
        "AZ_BATCH_MASTER_NODE": split_endpoint(environ.get("AZ_BATCH_MASTER_NODE", ""))[0],
        "LSB_MCPU_HOSTS": next(iter(lsf.hosts_of(environ)), ""),
        "OMPI_MCA_orte_hnp_uri": daemon.split(",")[0],
        "PMIX_NAMESPACE": host_of_namespace(environ),
    }
    return next(((host, name) for name, host in hosts.items() if host), ("", ""))


def host_of_namespace(environ: Mapping[str, str]) -> str:
    name = environ.get("PMIX_NAMESPACE", "")
    return name.removeprefix(PRRTE).rpartition("-")[0] if name.startswith(PRRTE) else ""
