"""What JAX is asked for on machines with accelerators, which the machine of the tests may not have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.worker.environment import Env

PAIR = Env(rank=1, local_rank=1, world_size=2, local_world_size=2, device="5", master="10.0.0.1:40003")


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
