"""Paddle's tensors in snapshots, through numpy. Paddle's bfloat16 is uint16 there."""

from __future__ import annotations

import numpy as np
import paddle

from flota.worker import snapshot_numpy
from flota.worker.snapshot_arrays import ArrayKind, refuse, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AS_INTEGERS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def _name(value: Any) -> str:
    return str(value.dtype).rpartition(".")[2]


def describe(value: Any, path: str) -> tuple[str, tuple[int, ...], int]:
    if not value._is_initialized() or not value.is_dense() or value.is_dist():  # noqa: SLF001
        raise refuse(path, "a sparse, distributed or empty Paddle tensor")
    name = _name(value)
    return name, tuple(value.shape), int(value.size) * snapshot_numpy.dtype_of(AS_INTEGERS.get(name, name)).itemsize


def view(memory: Any, dtype: str, shape: tuple[int, ...], offset: int) -> Any:
    return snapshot_numpy.view(memory, AS_INTEGERS.get(dtype, dtype), shape, offset)


def copy_all(values: list[Any], views: list[Any]) -> None:
    for value, target in zip(values, views):
        np.copyto(target, _as_array(value))


def _as_array(value: Any) -> Any:
    """The tensor's own memory where numpy can see it: `.numpy()` is a slow copy."""
    value = value.detach()
    if value.place.is_cpu_place() and _name(value) not in AS_INTEGERS and value.is_contiguous() and value.size:
        return np.from_dlpack(value)
    return value.numpy()


def read(memory: Any, dtype: str, shape: tuple[int, ...], offset: int) -> Any:
    array = view(memory, dtype, shape, offset)
    return paddle.to_tensor(array.copy(), dtype=dtype if dtype != "bfloat16" else None)


KIND = ArrayKind("paddle", whole, describe, view, copy_all, read)
