"""flota launches, watches and recovers distributed training: any framework, one machine or a thousand, one command.

What a training script may import is looked up when it is used: importing flota costs a worker nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

PUBLIC = {
    "heartbeat": "flota.worker.heartbeat",
    "on_stop": "flota.worker.heartbeat",
    "should_stop": "flota.worker.heartbeat",
}


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module 'flota' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(PUBLIC[name]), name)
    globals()[name] = value
    return value
