"""What torch is asked for on machines with accelerators, which the machine of the tests may not have."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest

from flota.worker.environment import Env

PAIR = Env(rank=1, local_rank=1, world_size=2, local_world_size=2, device="5", master="10.0.0.1:40003")


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
