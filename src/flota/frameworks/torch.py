"""torch: what torchrun gives, but a fresh MASTER_PORT each round that rank 0's own process serves on."""

from __future__ import annotations

from flota.job.plan import Worker
from flota.job.roles import TRAINER
from flota.job.roster import Roster, split_endpoint
from flota.job.spec import JobSpec

SHOWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    world = str(worker.size)
    address, port = master_endpoint(spec, roster, worker)
    restarts = spec.restarts.limit if spec.restarts.enabled and spec.restarts.elastic_level != 0 else 0
    return {
        "RANK": str(worker.rank),
        "LOCAL_RANK": "0" if spec.virtual_local_rank else str(worker.local_rank),
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": str(worker.local_size),
        "GROUP_RANK": str(worker.seat),
        "GROUP_WORLD_SIZE": str(len(roster.seats)),
        "ROLE_RANK": str(worker.rank),
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": spec.role,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": spec.job_id,
        "TORCHELASTIC_RESTART_COUNT": str(roster.attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(restarts),
        # True would mean that the launcher serves the store: then a restart meets the dead round's keys.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": error_file(spec, worker),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(spec.stop_signals),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }


def master_endpoint(spec: JobSpec, roster: Roster, worker: Worker) -> tuple[str, str]:
    """Where the workers of a role meet: the main one's at a port of its own, others at their first worker's."""
    master = roster.master(worker.role)
    if worker.role == spec.main:
        return master.address, master.ports.torch
    return split_endpoint(roster.endpoints(spec.first_of(worker.name))[0])


def error_file(spec: JobSpec, worker: Worker) -> str:
    """Where a script that uses flota.record or torch's @record writes its traceback."""
    own = str(worker.rank) if worker.name == TRAINER else f"{worker.name}.{worker.rank}"
    return f"{spec.log.directory}/error.{own}.json"
