"""torch: what torchrun gives, but a fresh MASTER_PORT each round that rank 0's own process serves on."""

from __future__ import annotations

from flota.job.plan import Worker
from flota.job.roster import Roster
from flota.job.spec import JobSpec

SHOWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    world = str(roster.world_size)
    restarts = spec.restarts.limit if spec.restarts.enabled and spec.restarts.elastic_level != 0 else 0
    return {
        "RANK": str(worker.rank),
        "LOCAL_RANK": "0" if spec.virtual_local_rank else str(worker.local_rank),
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": str(roster.seats[worker.seat].workers),
        "GROUP_RANK": str(worker.seat),
        "GROUP_WORLD_SIZE": str(len(roster.seats)),
        "ROLE_RANK": str(worker.rank),
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": spec.role,
        "MASTER_ADDR": roster.master.address,
        "MASTER_PORT": roster.master.ports.torch,
        "TORCHELASTIC_RUN_ID": spec.job_id,
        "TORCHELASTIC_RESTART_COUNT": str(roster.attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(restarts),
        # True would mean that the launcher serves the store: then a restart meets the dead round's keys.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": error_file(spec, worker.rank),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(spec.stop_signals),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }


def error_file(spec: JobSpec, rank: int) -> str:
    """Where a script that uses torch's @record writes its traceback."""
    return f"{spec.log.directory}/error.{rank}.json"
