"""JAX: the coordinator's address always; for --framework jax also what lets initialize() run without arguments."""

from __future__ import annotations

from flota.job.plan import Worker
from flota.job.roster import Roster, endpoint
from flota.job.spec import JobSpec

SHOWN = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    given = {
        "JAX_COORDINATOR_ADDRESS": coordinator(spec, roster, worker),
        "JAX_NUM_PROCESSES": str(worker.size),
        "JAX_PROCESS_ID": str(worker.rank),
    }
    if spec.frameworks == ("jax",):
        given.update(_open_mpi_names(coordinator(spec, roster, worker), worker))
        if worker.devices and worker.local_size > 1:
            chosen = spec.devices_for(spec.all_roles[worker.role]).chosen
            alone = spec.virtual_local_rank or spec.all_roles[worker.role].private
            own = 0 if alone else chosen.index(worker.devices[0])
            given["JAX_LOCAL_DEVICE_IDS"] = str(own)
    return given


def coordinator(spec: JobSpec, roster: Roster, worker: Worker) -> str:
    """The main role's at a port of its own, other roles' at their first worker's."""
    master = roster.master(worker.role)
    if worker.role == spec.main:
        return endpoint(master.address, master.ports.jax)
    return roster.endpoints(spec.first_of(worker.name))[0]


def _open_mpi_names(address: str, worker: Worker) -> dict[str, str]:
    """JAX reads count and rank only from clusters it knows. Open MPI's names are the shortest such list; they are
    not given to other frameworks, as a real MPI library would try to connect.
    """
    return {
        "OMPI_MCA_orte_hnp_uri": f"1.0;tcp://{address}",
        "OMPI_COMM_WORLD_SIZE": str(worker.size),
        "OMPI_COMM_WORLD_RANK": str(worker.rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(worker.local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(worker.local_size),
    }
