"""flota launches, watches and recovers distributed training: any framework, one machine or a thousand, one command.

Public names are imported when they are first used: `import flota` costs a worker nothing.
"""

__version__ = "0.1.0"

# The public names and their modules. Each is imported at its first use, so neither the command nor `import flota` pays
# for what it does not use. No module in this package may have one of these names.
PUBLIC = {
    "DataParallel": "flota.worker.parallel",
    "Env": "flota.worker.environment",
    "FlotaError": "flota.errors",
    "WorkerFailed": "flota.errors.spawning",
    "env": "flota.worker.environment",
    "heartbeat": "flota.worker.heartbeat",
    "init_parallel_env": "flota.worker.parallel",
    "launch": "flota.spawning.launch",
    "on_stop": "flota.worker.stop_callbacks",
    "phase": "flota.worker.phases",
    "record": "flota.worker.record_error",
    "should_stop": "flota.worker.heartbeat",
    "shutdown": "flota.worker.parallel",
    "snapshot": "flota.worker.state_snapshot",
    "spawn": "flota.spawning.spawn_call",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.errors import FlotaError as FlotaError
    from flota.errors.spawning import WorkerFailed as WorkerFailed
    from flota.spawning.launch import launch as launch
    from flota.spawning.spawn_call import spawn as spawn
    from flota.worker.environment import Env as Env
    from flota.worker.environment import env as env
    from flota.worker.heartbeat import heartbeat as heartbeat
    from flota.worker.heartbeat import should_stop as should_stop
    from flota.worker.parallel import DataParallel as DataParallel
    from flota.worker.parallel import init_parallel_env as init_parallel_env
    from flota.worker.parallel import shutdown as shutdown
    from flota.worker.phases import phase as phase
    from flota.worker.record_error import record as record
    from flota.worker.state_snapshot import snapshot as snapshot
    from flota.worker.stop_callbacks import on_stop as on_stop


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module 'flota' has no attribute '{name}'")
    value: object = getattr(__import__(PUBLIC[name], None, None, (name,)), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *PUBLIC})
