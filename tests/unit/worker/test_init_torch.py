"""What each framework is asked for on machines with accelerators, which the machine of the tests may not have."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace

import pytest

from flota.worker.environment import Env

PAIR = Env(rank=1, local_rank=1, world_size=2, local_world_size=2, device="5", master="10.0.0.1:40003")


@pytest.fixture
def adapter(monkeypatch):
    """A framework's file, beside a framework that only notes what it is asked."""

    def load(name, **parts):
        framework = ModuleType(name)
        for part, value in parts.items():
            setattr(framework, part, value)
            if isinstance(value, ModuleType):
                monkeypatch.setitem(sys.modules, value.__name__, value)
        monkeypatch.setitem(sys.modules, name, framework)
        monkeypatch.delitem(sys.modules, f"flota.worker.init_{name}", raising=False)
        module = import_module(f"flota.worker.init_{name}")
        # The next one to import it must find the framework itself.
        monkeypatch.delitem(sys.modules, f"flota.worker.init_{name}")
        return module

    return load


@pytest.fixture
def torch(adapter):
    """torch on a machine with so many GPUs; `calls` has what it was asked."""

    def load(gpus, *, recent=True, kind="cuda"):
        calls = []
        dist = ModuleType("torch.distributed")
        dist.init_process_group = lambda backend, **options: calls.append((backend, options))
        dist.HashStore = lambda: "in memory"
        if recent:
            dist.get_default_backend_for_device = {"cuda": "nccl", "mps": "gloo"}.__getitem__
        cuda = SimpleNamespace(
            is_available=lambda: gpus > 0,
            device_count=lambda: gpus,
            set_device=lambda index: calls.append(("cuda", index)),
        )
        accelerator = SimpleNamespace(
            is_available=cuda.is_available,
            device_count=cuda.device_count,
            current_accelerator=lambda: SimpleNamespace(type=kind),
            set_device_index=lambda index: calls.append((kind, index)),
        )
        parts = {"accelerator": accelerator} if recent else {}
        return adapter("torch", distributed=dist, cuda=cuda, mps=SimpleNamespace(), **parts), calls

    return load


@pytest.mark.parametrize("recent", [True, False])
def test_torch_on_gpus_uses_the_workers_own_and_nccl(torch, recent):
    module, calls = torch(4, recent=recent)

    module.init(PAIR)

    assert calls == [("cuda", 1), ("cpu:gloo,cuda:nccl", {})]


def test_torch_on_a_mac_uses_its_only_device_and_gloo(torch):
    module, calls = torch(1, kind="mps")

    module.init(Env())

    assert calls == [("mps", 0), ("gloo", {"store": "in memory", "rank": 0, "world_size": 1})]


def test_torch_without_gpus_uses_gloo(torch):
    module, calls = torch(0)

    module.init(PAIR)

    assert calls == [("gloo", {})]


def test_torch_workers_that_share_a_gpu_use_gloo(torch):
    module, calls = torch(1)

    module.init(PAIR)

    assert calls == [("cuda", 0), ("gloo", {})]


def test_a_single_torch_process_needs_no_port(torch):
    module, calls = torch(1)

    module.init(Env())

    assert calls == [("cuda", 0), ("cpu:gloo,cuda:nccl", {"store": "in memory", "rank": 0, "world_size": 1})]


@pytest.mark.parametrize(
    ("environ", "env", "devices"),
    [
        ({}, PAIR, [1]),
        ({"CUDA_VISIBLE_DEVICES": "4,5"}, PAIR, [1]),
        ({"CUDA_VISIBLE_DEVICES": "5"}, PAIR, [0]),
        ({"JAX_LOCAL_DEVICE_IDS": "1"}, PAIR, None),
        ({}, PAIR._replace(device="cpu"), None),
        ({}, PAIR._replace(local_rank=0, local_world_size=1, device="4,5"), None),
    ],
    ids=["all are visible", "some are visible", "only its own is visible", "JAX was told", "CPU", "all are its own"],
)
def test_jax_workers_of_one_machine_have_a_device_each(adapter, monkeypatch, environ, env, devices):
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:40005", **environ}.items():
        monkeypatch.setenv(name, value)
    asked = []
    distributed = SimpleNamespace(initialize=lambda *words, **options: asked.append((words, options)))

    adapter("jax", distributed=distributed).init(env)

    assert asked == [(("10.0.0.1:40005", 2, 1), {"local_device_ids": devices})]
