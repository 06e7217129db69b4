"""init_parallel_env, DataParallel, shutdown: each is done by the framework, in a file of its own (init_NAME.py)."""

from __future__ import annotations

import os
import sys

from flota.errors.worker import (
    FrameworkMissing,
    NoFramework,
    NotInitialised,
    NoWrapper,
    SeveralFrameworks,
    UnknownFramework,
    VariableMissing,
)
from flota.worker.environment import Env, env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import TypeVar

    Model = TypeVar("Model")

# The variable by which each framework finds the other workers; only a launcher that knows the framework sets it.
NEEDED = {
    "torch": "MASTER_ADDR",
    "paddle": "PADDLE_TRAINERS_NUM",
    "jax": "JAX_COORDINATOR_ADDRESS",
    "tensorflow": "TF_CONFIG",
}
KNOWN = tuple(NEEDED)
_chosen: list[str] = []  # set by init_parallel_env for the later calls


def init_parallel_env(framework: str | None = None) -> Env:
    """Connect this worker to the others, by the framework that the script has imported. It is harmless without other
    workers, and when called again.
    """
    if framework is not None and framework not in KNOWN:
        raise UnknownFramework(framework, KNOWN)
    name = framework or find_framework("init_parallel_env")
    here = env()
    adapter = adapter_of(name)
    if not adapter.is_running():
        if here.world_size > 1 and NEEDED[name] not in os.environ:
            raise VariableMissing(name, NEEDED[name], here.world_size)
        adapter.init(here)
    _chosen[:] = [name]
    return here


def DataParallel(model: Model, **options: object) -> Model:  # noqa: N802  as torch and Paddle call theirs
    """Wrap the model in the framework's own class, which gets the options."""
    name = find_framework("DataParallel")
    adapter = adapter_of(name)
    if not hasattr(adapter, "wrap"):
        raise NoWrapper(name, adapter.INSTEAD)
    if env().world_size > 1 and not adapter.is_running():
        raise NotInitialised
    wrapped: Model = adapter.wrap(model, options)
    return wrapped


def shutdown() -> None:
    """Disconnect from the other workers. Without init_parallel_env, or a second time, it does nothing."""
    if _chosen:
        adapter = adapter_of(_chosen.pop())
        if adapter.is_running():
            adapter.shutdown()


def find_framework(call: str) -> str:
    """The framework of init_parallel_env, else the one that has been imported."""
    found = tuple(_chosen) or tuple(name for name in KNOWN if sys.modules.get(name) is not None)
    if not found:
        raise NoFramework(call, KNOWN)
    if len(found) > 1:
        raise SeveralFrameworks(call, found)
    return found[0]


def adapter_of(name: str) -> ModuleType:
    """A framework's module: is_running, init, shutdown, and wrap, or INSTEAD, the text of what to do instead."""
    try:
        adapter: ModuleType = __import__(f"flota.worker.init_{name}", None, None, (name,))
    except ImportError as error:
        raise FrameworkMissing(name, str(error)) from error
    return adapter
