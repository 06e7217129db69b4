"""JAX's arrays and the nodes of its trees in snapshots."""

from __future__ import annotations

import jax
import numpy as np

from flota.worker import snapshot_numpy
from flota.worker.snapshot_arrays import ArrayKind, LocalParts, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def parts(value: Any, path: str) -> LocalParts:
    """All of an array that this process can read, or this process's shards of it."""
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        raise refuse(path, f"an array of {value.dtype}: save jax.random.key_data(key)")
    if value.is_fully_addressable:
        return LocalParts([np.asarray(value)])
    if value.is_fully_replicated:
        return LocalParts([np.asarray(value.addressable_data(0))])
    shards = [np.asarray(shard.data) for shard in value.addressable_shards]
    return LocalParts(shards, tuple(value.shape), sharded=True)


def read(memory: Any, dtype: str, shape: tuple[int, ...], offset: int) -> Any:
    return snapshot_numpy.read(memory, dtype, shape, offset)


def place(like: Any, array: Any) -> Any:
    """As an array of JAX, with the sharding of the script's."""
    if not isinstance(like, jax.Array):
        return jax.numpy.asarray(array)
    if like.is_fully_addressable:
        return jax.device_put(array, like.sharding)
    return jax.make_array_from_callback(array.shape, like.sharding, lambda index: array[index])


def join(like: Any, shape: tuple[int, ...], arrays: list[Any]) -> Any:
    if tuple(like.shape) != shape:
        raise TypeError(f"its shape was {list(shape)}, and is {list(like.shape)} now")
    placed = [jax.device_put(array, shard.device) for array, shard in zip(arrays, like.addressable_shards)]
    return jax.make_array_from_single_device_arrays(like.shape, like.sharding, placed)


def children(value: Any) -> Sequence[Any] | None:
    """The children of a node that JAX knows, such as a state of a library; None for a leaf."""
    found = jax.tree_util.tree_leaves(value, is_leaf=lambda one: one is not value)
    return None if len(found) == 1 and found[0] is value else found


def rebuild(like: Any, found: list[Any]) -> Any:
    treedef = jax.tree_util.tree_structure(like, is_leaf=lambda one: one is not like)
    return jax.tree_util.tree_unflatten(treedef, found)


KIND = ArrayKind(
    *("jax", parts, snapshot_numpy.describe, snapshot_numpy.view, snapshot_numpy.copy_all, read),
    children=children,
    rebuild=rebuild,
    join=join,
    place=place,
)
