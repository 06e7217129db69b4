"""torch's tensors in snapshots."""

from __future__ import annotations

import torch

from flota.worker.snapshot_arrays import ArrayKind, LocalParts, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parts(value: Any, path: str) -> LocalParts:
    """A DTensor's local part. What `Replicate` places is whole on each rank."""
    if not hasattr(value, "placements"):
        return LocalParts([value])
    local = value.to_local()
    if hasattr(local, "wait"):
        local = local.wait()
    if any(placement.is_partial() for placement in value.placements):
        raise refuse(path, "a DTensor whose sum is pending")
    replicated = all(placement.is_replicate() for placement in value.placements)
    return LocalParts([local], tuple(value.shape), sharded=not replicated)


def describe(value: Any, path: str) -> tuple[str, tuple[int, ...], int]:
    """Only strided tensors of plain numbers: others would crash, or have bytes that mean nothing elsewhere."""
    if value.is_quantized or str(value.dtype).startswith(("torch.q", "torch.bits")):
        raise refuse(path, f"a quantized tensor ({value.dtype})")
    if value.layout is not torch.strided:
        raise refuse(path, f"a sparse tensor ({value.layout})")
    if value.device.type == "meta":
        raise refuse(path, "a tensor on the meta device, which has no values")
    if getattr(value, "is_nested", False) or type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise refuse(path, f"a tensor of the type {type(value).__qualname__}")
    return str(value.dtype)[len("torch.") :], tuple(value.shape), value.numel() * value.element_size()


def view(memory: Any, dtype: str, shape: tuple[int, ...], offset: int) -> Any:
    kind = getattr(torch, dtype)
    count = 1
    for length in shape:
        count *= length
    if count == 0:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(memory, dtype=kind, count=count, offset=offset).view(shape)


def copy_all(values: list[Any], views: list[Any]) -> None:
    """Copies from an accelerator run at the same time, and are complete when this returns."""
    devices = set()
    with torch.no_grad():
        for value, target in zip(values, views):
            is_local = value.device.type == "cpu"
            target.copy_(value, non_blocking=not is_local)
            if not is_local:
                devices.add(value.device)
    for device in devices:
        getattr(torch, device.type).synchronize(device)


def read(memory: Any, dtype: str, shape: tuple[int, ...], offset: int) -> Any:
    return view(memory, dtype, shape, offset).clone()


def join(like: Any, shape: tuple[int, ...], arrays: list[Any]) -> Any:
    """`like`: a DTensor of the script, or a parameter that has the placements of its optimizer's state."""
    if not hasattr(like, "placements"):
        raise TypeError("this rank's part of a DTensor needs a DTensor to be loaded into")
    if tuple(like.shape) != shape:
        raise TypeError(f"its shape was {list(shape)}, and is {list(like.shape)} now")
    from torch.distributed.tensor import DTensor

    local = arrays[0].to(like.to_local().device)
    return DTensor.from_local(
        local, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


KIND = ArrayKind("torch", parts, describe, view, copy_all, read, join=join)
