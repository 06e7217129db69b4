"""numpy's arrays in snapshots. Arrays of other frameworks that numpy can read without a copy use the same functions."""

from __future__ import annotations

from flota.worker.snapshot_arrays import ArrayKind, refuse, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLAIN_KINDS = "biufc"  # bool, integers, floating point, complex; not objects, strings, times
EXTENSIONS = ("bfloat16", "float8_", "int4", "uint4")  # of ml_dtypes, which numpy knows as raw bytes


def describe(value: Any, path: str) -> tuple[str, tuple[int, ...], int]:
    dtype = value.dtype
    if dtype.kind not in PLAIN_KINDS and not dtype.name.startswith(EXTENSIONS):
        raise refuse(path, f"an array of {dtype}")
    if dtype.kind in PLAIN_KINDS and not dtype.isnative:
        raise refuse(path, f"an array of {dtype}, which is not in this machine's byte order")
    return dtype.name, tuple(value.shape), value.nbytes


def dtype_of(name: str) -> Any:
    import numpy as np

    if name.startswith(EXTENSIONS):
        return np.dtype(getattr(__import__("ml_dtypes"), name))
    return np.dtype(name)


def view(memory: Any, dtype: str, shape: tuple[int, ...], offset: int) -> Any:
    import numpy as np

    kind = dtype_of(dtype)
    count = 1
    for length in shape:
        count *= length
    return np.frombuffer(memory, np.uint8, count * kind.itemsize, offset).view(kind).reshape(shape)


def copy_all(values: list[Any], views: list[Any]) -> None:
    import numpy as np

    for value, target in zip(values, views):
        np.copyto(target, value)


def read(memory: Any, dtype: str, shape: tuple[int, ...], offset: int) -> Any:
    return view(memory, dtype, shape, offset).copy()


KIND = ArrayKind("numpy", whole, describe, view, copy_all, read)
