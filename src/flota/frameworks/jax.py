"""JAX: the coordinator's address, and for scripts that need it what initialize() reads when it has no arguments."""

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
    role = spec.all_roles[worker.role]
    if spec.frameworks == ("jax",) or (role.command or spec.command).asks_jax:
        # JAX reads size and rank only from clusters that it knows; Open MPI needs the fewest variables. They are not
        # set for other scripts: a real MPI library would try to connect.
        given |= {
            # OMPI_MCA_orte_hnp_uri: makes `jax.distributed.initialize()` use the values below
            "OMPI_MCA_orte_hnp_uri": f"1.0;tcp://{coordinator}",
            "OMPI_COMM_WORLD_SIZE": str(worker.size),  # number of workers in the job
            "OMPI_COMM_WORLD_RANK": str(worker.rank),  # the worker's rank in the job
            "OMPI_COMM_WORLD_LOCAL_RANK": str(worker.local_rank),  # the worker's rank on this machine
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(worker.local_size),  # number of workers on this machine
        }
        if worker.devices:
            # Under Open MPI, JAX would use only the device whose index is the worker's local rank.
            chosen = worker.devices if spec.virtual_local_rank or role.private else spec.devices_for(role).chosen
            # JAX_LOCAL_DEVICE_IDS: the worker's devices as indices into the visible ones; not changed if already set
            given["JAX_LOCAL_DEVICE_IDS"] = ",".join(str(chosen.index(device)) for device in worker.devices)
    return given


FRAMEWORK = Framework("JAX", variables, shown=("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))
