"""JAX: calls jax.distributed.initialize with explicit arguments; JAX detects them only with Open MPI's variables."""

from __future__ import annotations

import os

import jax

from flota.worker.environment import Env
from flota.worker.exit_after_error import exit_after_error

INSTEAD = "shard the batch over jax.devices() with jax.sharding, as examples/jax does"
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def is_running() -> bool:
    return bool(jax.distributed.is_initialized())


def init(env: Env) -> None:
    if env.world_size > 1:
        exit_after_error()
        jax.distributed.initialize(
            os.environ["JAX_COORDINATOR_ADDRESS"], env.world_size, env.rank, local_device_ids=own_devices(env)
        )


def shutdown() -> None:
    jax.distributed.shutdown()


def own_devices(env: Env) -> list[int] | None:
    """Return one device per worker if several share a machine: by default each would use all visible ones."""
    if env.local_world_size == 1 or env.device in ("", "cpu") or "JAX_LOCAL_DEVICE_IDS" in os.environ:
        return None
    sees_one = any(os.environ.get(name) == env.device for name in VISIBLE)
    return [0 if sees_one else env.local_rank]
