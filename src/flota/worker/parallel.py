"""init_parallel_env, DataParallel and shutdown: they delegate to the framework's adapter (init_NAME.py)."""

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
from flota.worker.phases import phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import TypeVar

    Model = TypeVar("Model")

# The variable by which each framework finds the other workers, set by launchers that support the framework.
NEEDED = {
    "torch": "MASTER_ADDR",
    "paddle": "PADDLE_TRAINERS_NUM",
    "jax": "JAX_COORDINATOR_ADDRESS",
    "tensorflow": "TF_CONFIG",
}
KNOWN = tuple(NEEDED)
_chosen: list[str] = []  # set by init_parallel_env for later calls


def init_parallel_env(framework: str | None = None) -> Env:
    """Connect this worker to the others with the framework that the script has imported. It may be called again, and
    without other workers.
    """
    if framework is not None and framework not in KNOWN:
        raise UnknownFramework(framework, KNOWN)
    name = framework or find_framework("init_parallel_env")
    here = env()
    adapter = adapter_of(name)
    if not adapter.is_running():
        if here.world_size > 1 and NEEDED[name] not in os.environ:
            raise VariableMissing(name, NEEDED[name], here.world_size)
        with phase("initialise"):
            adapter.init(here)
    _chosen[:] = [name]
    return here


def DataParallel(model: Model, **options: object) -> Model:  # noqa: N802  the name in torch and Paddle
    """Wrap the model in the framework's own class, with these options."""
    name = find_framework("DataParallel")
    adapter = adapter_of(name)
    if not hasattr(adapter, "wrap"):
        raise NoWrapper(name, adapter.INSTEAD)
    if env().world_size > 1 and not adapter.is_running():
        raise NotInitialised
    wrapped: Model = adapter.wrap(model, options)
    return wrapped


def shutdown() -> None:
    """Disconnect from the other workers. Does nothing without init_parallel_env or when called again."""
    if _chosen:
        adapter = adapter_of(_chosen.pop())
        if adapter.is_running():
            adapter.shutdown()


def find_framework(call: str) -> str:
    """Return the framework chosen by init_parallel_env, or else the one that is imported."""
    found = tuple(_chosen) or tuple(name for name in KNOWN if sys.modules.get(name) is not None)
    if not found:
        raise NoFramework(call, KNOWN)
    if len(found) > 1:
        raise SeveralFrameworks(call, found)
    return found[0]


def adapter_of(name: str) -> ModuleType:
    """Return a framework's module: is_running, init, shutdown, and either wrap or INSTEAD, a hint."""
    try:
        adapter: ModuleType = __import__(f"flota.worker.init_{name}", None, None, (name,))
    except ImportError as error:
        raise FrameworkMissing(name, str(error)) from error
    return adapter
