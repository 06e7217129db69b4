"""JAX: the coordinator's address always; for --framework jax also what lets initialize() run without arguments."""

from __future__ import annotations

from flota.job.plan import Worker
from flota.job.roster import Roster, endpoint
from flota.job.spec import JobSpec

SHOWN = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    master = roster.master
    given = {
        "JAX_COORDINATOR_ADDRESS": endpoint(master.address, master.ports.jax),
        "JAX_NUM_PROCESSES": str(roster.world_size),
        "JAX_PROCESS_ID": str(worker.rank),
    }
    if spec.frameworks == ("jax",):
        given.update(_open_mpi_names(roster, worker))
        if worker.devices and roster.seats[worker.seat].workers > 1:
            own = 0 if spec.virtual_local_rank else spec.devices.chosen.index(worker.devices[0])
            given["JAX_LOCAL_DEVICE_IDS"] = str(own)
    return given


def _open_mpi_names(roster: Roster, worker: Worker) -> dict[str, str]:
    """JAX reads count and rank only from clusters it knows. Open MPI's names are the shortest such list; they are
    not given to other frameworks, as a real MPI library would try to connect.
    """
    master = roster.master
    return {
        "OMPI_MCA_orte_hnp_uri": f"1.0;tcp://{master.address}:{master.ports.jax}",
        "OMPI_COMM_WORLD_SIZE": str(roster.world_size),
        "OMPI_COMM_WORLD_RANK": str(worker.rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(worker.local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(roster.seats[worker.seat].workers),
    }
