"""JAX: the coordinator's address; with --framework jax also what initialize() needs to run without arguments."""

from __future__ import annotations

from flota.frameworks import Framework, master_endpoint
from flota.job.plan import Worker
from flota.job.roster import Roster
from flota.job.spec import JobSpec


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    coordinator = master_endpoint(spec, roster, worker, "jax")
    given = {
        "JAX_COORDINATOR_ADDRESS": coordinator,  # where rank 0 serves JAX's coordinator
        "JAX_NUM_PROCESSES": str(worker.size),  # number of workers in the job; for scripts, JAX does not read it
        "JAX_PROCESS_ID": str(worker.rank),  # the worker's rank in the job; for scripts, JAX does not read it
    }
    if spec.frameworks == ("jax",):
        # JAX reads size and rank only from clusters that it knows; Open MPI needs the fewest variables. They are not
        # set for other frameworks: a real MPI library would try to connect.
        given |= {
            # OMPI_MCA_orte_hnp_uri: makes `jax.distributed.initialize()` use the values below
            "OMPI_MCA_orte_hnp_uri": f"1.0;tcp://{coordinator}",
            "OMPI_COMM_WORLD_SIZE": str(worker.size),  # number of workers in the job
            "OMPI_COMM_WORLD_RANK": str(worker.rank),  # the worker's rank in the job
            "OMPI_COMM_WORLD_LOCAL_RANK": str(worker.local_rank),  # the worker's rank on this machine
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(worker.local_size),  # number of workers on this machine
        }
        if worker.devices and worker.local_size > 1:
            chosen = spec.devices_for(spec.all_roles[worker.role]).chosen
            alone = spec.virtual_local_rank or spec.all_roles[worker.role].private
            own = 0 if alone else chosen.index(worker.devices[0])
            # JAX_LOCAL_DEVICE_IDS: the worker's device as an index into the visible ones, if there are several workers
            given["JAX_LOCAL_DEVICE_IDS"] = str(own)
    return given


FRAMEWORK = Framework("JAX", variables, shown=("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))
