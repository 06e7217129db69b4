"""torch: the variables of torchrun, but with a new MASTER_PORT each round, on which rank 0 itself serves the store."""

from __future__ import annotations

from flota.frameworks import Framework, master_endpoint
from flota.job.plan import ERROR, Worker, own_file
from flota.job.roster import Roster, split_endpoint
from flota.job.spec import JobSpec


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    world = str(worker.size)
    address, port = split_endpoint(master_endpoint(spec, roster, worker, "torch"))
    policy = spec.restarts
    last = policy.last_attempt if policy.enabled and policy.elastic_level != 0 else policy.earlier
    return {
        "RANK": str(worker.rank),  # the worker's rank in the job
        # LOCAL_RANK: the worker's rank on this machine; always 0 with `--virtual-local-rank`
        "LOCAL_RANK": "0" if spec.virtual_local_rank else str(worker.local_rank),
        "WORLD_SIZE": world,  # number of workers in the job
        "LOCAL_WORLD_SIZE": str(worker.local_size),  # number of workers on this machine
        "GROUP_RANK": str(worker.machine),  # the rank of this machine
        "GROUP_WORLD_SIZE": str(worker.machines),  # number of machines in the job
        "ROLE_RANK": str(worker.rank),  # the worker's rank in its role: the same as `RANK`
        "ROLE_WORLD_SIZE": world,  # number of workers in its role: the same as `WORLD_SIZE`
        "ROLE_NAME": spec.role,  # `--role`
        "MASTER_ADDR": address,  # where rank 0 serves torch's store
        "MASTER_PORT": port,  # its port: a free one, new in each round, held for rank 0 until the round ends
        "TORCHELASTIC_RUN_ID": spec.run_id or spec.job_id,  # `--job_id`; without it, a name that is new in each run
        "TORCHELASTIC_RESTART_COUNT": str(roster.attempt),  # number of counted restarts so far
        "TORCHELASTIC_MAX_RESTARTS": str(last),  # the highest `TORCHELASTIC_RESTART_COUNT` that there can be
        # True would mean that the launcher serves the store: a restart would find the keys of the old round.
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # `False`: rank 0 serves the store, not the launcher
        # TORCHELASTIC_ERROR_FILE: where a script that uses `flota.record` or torch's `@record` writes its traceback
        "TORCHELASTIC_ERROR_FILE": own_file(spec, worker, ERROR),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(spec.stop_signals),  # `--signals-to-handle`
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",  # not changed if already set
    }


FRAMEWORK = Framework("torch", variables, shown=("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
