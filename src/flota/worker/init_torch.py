"""torch: creates a process group, even for one worker, so that collectives in a script always work."""

from __future__ import annotations

from time import sleep
from typing import Any

import torch
import torch.distributed as dist

from flota.worker.environment import Env


def is_running() -> bool:
    return bool(dist.is_available() and dist.is_initialized())


def init(env: Env) -> None:
    kind, count = _accelerators()
    if count:
        _set_device(kind, env.local_rank % count)
    backend = backend_for(kind, count, env)
    if env.world_size > 1:
        dist.init_process_group(backend)
    else:
        # A store in memory: a single process needs no port.
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def wrap(model: Any, options: dict[str, object]) -> Any:
    if not is_running():
        return model
    devices = {parameter.device for parameter in model.parameters()}
    if len(devices) == 1 and all(device.type != "cpu" for device in devices):
        options = {"device_ids": list(devices), **options}
    return torch.nn.parallel.DistributedDataParallel(model, **options)


def shutdown() -> None:
    # Threads of gloo need the GIL to release the tensors of the last collective. An interpreter that exits before that
    # aborts: seen in 3 of about 70 runs. torch has no function to wait for them.
    sleep(0.05)
    dist.destroy_process_group()


def backend_for(kind: str, count: int, env: Env) -> str:
    """Return the accelerator's backend plus gloo for CPU tensors; gloo alone if workers share a device."""
    if not count or env.local_world_size > count:
        return "gloo"
    default_for = getattr(dist, "get_default_backend_for_device", {"cuda": "nccl"}.get)  # since torch 2.6
    own = default_for(kind)
    return f"cpu:gloo,{kind}:{own}" if own and own != "gloo" else "gloo"


def _accelerators() -> tuple[str, int]:
    """Return the kind and number of visible devices."""
    accelerator = getattr(torch, "accelerator", None)  # since torch 2.6
    if accelerator is not None and accelerator.is_available():
        return accelerator.current_accelerator().type, accelerator.device_count()
    return "cuda", torch.cuda.device_count() if torch.cuda.is_available() else 0


def _set_device(kind: str, index: int) -> None:
    """Select a device, with torch.accelerator if possible: torch.mps has no set_device."""
    of_any_kind = getattr(getattr(torch, "accelerator", None), "set_device_index", None)
    set_device = of_any_kind or getattr(torch, kind).set_device
    set_device(index)
