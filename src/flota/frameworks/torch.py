"""torch: what torchrun gives, but a fresh MASTER_PORT each round that rank 0's own process serves on."""

from __future__ import annotations

from flota.frameworks import Framework, master_endpoint
from flota.job.plan import ERROR, Worker, own_file
from flota.job.roster import Roster, split_endpoint
from flota.job.spec import JobSpec


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    world = str(worker.size)
    address, port = split_endpoint(master_endpoint(spec, roster, worker, "torch"))
    restarts = spec.restarts.limit if spec.restarts.enabled and spec.restarts.elastic_level != 0 else 0
    return {
        "RANK": str(worker.rank),  # the worker's number in the job
        # LOCAL_RANK: its number on this machine; always 0 with `--virtual-local-rank`
        "LOCAL_RANK": "0" if spec.virtual_local_rank else str(worker.local_rank),
        "WORLD_SIZE": world,  # workers in the job
        "LOCAL_WORLD_SIZE": str(worker.local_size),  # workers on this machine
        "GROUP_RANK": str(worker.seat),  # this machine's number
        "GROUP_WORLD_SIZE": str(len(roster.seats)),  # machines in the job
        "ROLE_RANK": str(worker.rank),  # the worker's number in its role: the same as `RANK`
        "ROLE_WORLD_SIZE": world,  # workers in its role: the same as `WORLD_SIZE`
        "ROLE_NAME": spec.role,  # `--role`
        "MASTER_ADDR": address,  # where rank 0 serves torch's store
        "MASTER_PORT": port,  # its port: a free one, another each round, held for rank 0 until the round ends
        "TORCHELASTIC_RUN_ID": spec.job_id,  # `--job_id`
        "TORCHELASTIC_RESTART_COUNT": str(roster.attempt),  # counted restarts so far
        "TORCHELASTIC_MAX_RESTARTS": str(restarts),  # how many there may be; 0 when restarting is off
        # True would mean that the launcher serves the store: then a restart finds the dead round's keys.
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # `False`: rank 0 serves the store, not the launcher
        # TORCHELASTIC_ERROR_FILE: where a script that uses `flota.record` or torch's `@record` leaves its traceback
        "TORCHELASTIC_ERROR_FILE": own_file(spec, worker, ERROR),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(spec.stop_signals),  # `--signals-to-handle`
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",  # kept when it is set already
    }


FRAMEWORK = Framework("torch", variables, shown=("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
