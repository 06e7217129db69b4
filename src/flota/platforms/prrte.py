"""PRRTE, the launcher of Open MPI 5, on its own: it sets each process's rank, but not their number. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.openmpi import GRACE, host_of_namespace
from flota.platforms.reading import Variables, as_name, port_for

ALONE = "its variables do not say how many processes there are; running on this machine alone (--nnodes N uses all)"


def detect(environ: Mapping[str, str]) -> Hints | None:
    if environ.get("SLURM_STEP_ID") or environ.get("OMPI_COMM_WORLD_RANK"):
        return None  # srun --mpi=pmix and mpirun set the same names
    rank = Variables("PRRTE", environ).number("PMIX_RANK")
    job, host = environ["PMIX_NAMESPACE"], host_of_namespace(environ)
    master = endpoint(host, str(port_for(job))) if host else ""
    return Hints(
        *("PMIX_NAMESPACE", 0, rank, "PMIX_RANK", master),
        job_id=as_name(job),
        job_source="PMIX_NAMESPACE",
        grace=GRACE,
        alone=ALONE,
    )
