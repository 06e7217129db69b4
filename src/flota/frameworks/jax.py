"""JAX: the coordinator's address always; for --framework jax also what lets initialize() run without arguments."""

from __future__ import annotations

from flota.frameworks import Framework, master_endpoint
from flota.job.plan import Worker
from flota.job.roster import Roster
from flota.job.spec import JobSpec


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    coordinator = master_endpoint(spec, roster, worker, "jax")
    given = {
        "JAX_COORDINATOR_ADDRESS": coordinator,  # where rank 0 serves JAX's coordinator
        "JAX_NUM_PROCESSES": str(worker.size),  # workers in the job; JAX does not read it, a script may
        "JAX_PROCESS_ID": str(worker.rank),  # the worker's number in the job; JAX does not read it, a script may
    }
    if spec.frameworks == ("jax",):
        # JAX reads count and rank only from clusters it knows. Open MPI's names are the shortest such list; they are
        # not given to other frameworks, as a real MPI library would try to connect.
        given |= {
            # OMPI_MCA_orte_hnp_uri: makes `jax.distributed.initialize()` take the values below
            "OMPI_MCA_orte_hnp_uri": f"1.0;tcp://{coordinator}",
            "OMPI_COMM_WORLD_SIZE": str(worker.size),  # workers in the job
            "OMPI_COMM_WORLD_RANK": str(worker.rank),  # the worker's number in the job
            "OMPI_COMM_WORLD_LOCAL_RANK": str(worker.local_rank),  # its number on this machine
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(worker.local_size),  # workers on this machine
        }
        if worker.devices and worker.local_size > 1:
            chosen = spec.devices_for(spec.all_roles[worker.role]).chosen
            alone = spec.virtual_local_rank or spec.all_roles[worker.role].private
            own = 0 if alone else chosen.index(worker.devices[0])
            # JAX_LOCAL_DEVICE_IDS: the worker's device as an index into the visible ones, with several workers
            given["JAX_LOCAL_DEVICE_IDS"] = str(own)
    return given


FRAMEWORK = Framework("JAX", variables, shown=("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))
