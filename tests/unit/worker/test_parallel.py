"""init_parallel_env, DataParallel and shutdown, with a framework that is none."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import flota
from flota.errors.worker import (
    FrameworkMissing,
    NoFramework,
    NotInitialised,
    NoWrapper,
    SeveralFrameworks,
    UnknownFramework,
    VariableMissing,
)
from flota.worker import parallel


class Adapter(ModuleType):
    """Stands for a framework's file, and notes what it is asked."""

    def __init__(self, name):
        super().__init__(f"flota.worker.init_{name}")
        self.running = False
        self.calls = []

    def is_running(self):
        return self.running

    def init(self, env):
        self.calls.append(("init", env.rank, env.world_size))
        self.running = env.world_size > 1

    def shutdown(self):
        self.calls.append("shutdown")
        self.running = False


class Wrapping(Adapter):
    def wrap(self, model, options):
        return ("wrapped", model, options)


@pytest.fixture(autouse=True)
def nobody_here(monkeypatch):
    """No framework imported, no launcher, no call before this one."""
    for name in parallel.KNOWN:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in (
        "FLOTA_RANK",
        "FLOTA_WORLD_SIZE",
        "RANK",
        "WORLD_SIZE",
        "PADDLE_TRAINER_ID",
        *parallel.NEEDED.values(),
    ):
        monkeypatch.delenv(name, raising=False)
    yield
    parallel._chosen.clear()


@pytest.fixture
def imported(monkeypatch):
    def make(name, kind=Wrapping):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        adapter = kind(name)
        monkeypatch.setitem(sys.modules, adapter.__name__, adapter)
        return adapter

    return make


@pytest.fixture
def second_of_two(monkeypatch):
    monkeypatch.setenv("FLOTA_RANK", "1")
    monkeypatch.setenv("FLOTA_WORLD_SIZE", "2")
    for name in parallel.NEEDED.values():
        monkeypatch.setenv(name, "somewhere")


@pytest.mark.parametrize("name", parallel.KNOWN)
def test_the_framework_that_was_imported_is_initialised(imported, second_of_two, name):
    adapter = imported(name)

    env = flota.init_parallel_env()

    assert (env.rank, env.world_size) == (1, 2)
    assert adapter.calls == [("init", 1, 2)]


def test_calling_it_twice_initialises_once(imported, second_of_two):
    adapter = imported("torch")

    assert flota.init_parallel_env() == flota.init_parallel_env()

    assert adapter.calls == [("init", 1, 2)]


def test_without_a_framework_it_says_what_to_do():
    with pytest.raises(NoFramework, match="none of torch, paddle, jax, tensorflow\nhint: import one first, or name it"):
        flota.init_parallel_env()


def test_several_frameworks_want_a_name(imported):
    imported("torch")
    tensorflow = imported("tensorflow")

    with pytest.raises(SeveralFrameworks, match=r"torch and tensorflow have been imported"):
        flota.init_parallel_env()
    flota.init_parallel_env("tensorflow")

    assert tensorflow.calls == [("init", 0, 1)]
    assert flota.DataParallel("model")[0] == "wrapped"


def test_an_unknown_framework_is_named():
    with pytest.raises(UnknownFramework, match="unknown framework `caffe`\nhint: use one of torch, paddle"):
        flota.init_parallel_env("caffe")


def test_a_launcher_that_does_not_support_the_framework_is_not_a_single_process(imported, monkeypatch):
    imported("jax")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")

    with pytest.raises(
        VariableMissing, match="JAX_COORDINATOR_ADDRESS is not set\nhint: start the script with `flota`"
    ):
        flota.init_parallel_env()


def test_models_are_wrapped_with_the_frameworks_own_options(imported, second_of_two):
    imported("paddle")
    flota.init_parallel_env()

    wrapped = flota.DataParallel("model", find_unused_parameters=True)

    assert wrapped == ("wrapped", "model", {"find_unused_parameters": True})


def test_models_are_not_wrapped_before_workers_are_connected(imported, second_of_two):
    imported("torch")

    with pytest.raises(NotInitialised, match=r"call flota.init_parallel_env\(\) first"):
        flota.DataParallel("model")


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_frameworks_without_a_wrapper_say_what_to_do_instead(imported, name):
    imported(name, Adapter).INSTEAD = "do that"

    with pytest.raises(NoWrapper, match=f"{name} has no model wrapper\nhint: do that"):
        flota.DataParallel("model")


def test_shutdown_is_safe_at_any_time(imported, second_of_two):
    adapter = imported("torch")

    flota.shutdown()
    flota.init_parallel_env()
    flota.shutdown()
    flota.shutdown()

    assert adapter.calls == [("init", 1, 2), "shutdown"]


@pytest.mark.parametrize("name", parallel.KNOWN)
def test_a_framework_that_is_not_there_is_one_clear_error(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, f"flota.worker.init_{name}", raising=False)

    with pytest.raises(FrameworkMissing, match=f"{name} cannot be imported: .*\nhint: run `pip install {name}`"):
        flota.init_parallel_env(name)
