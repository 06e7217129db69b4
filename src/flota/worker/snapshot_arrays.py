"""Arrays of frameworks: how to copy them to memory and back. A framework is used only if the script has imported it.

A kind is chosen by the package of a value's type. What is not known to be a plain array of numbers is refused: reading
a quantized tensor as bytes would crash.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from flota.errors.snapshots import UnsupportedState
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Described = tuple[str, tuple[int, ...], int]


class LocalParts(NamedTuple):
    """What this rank has of an array. `shape`: that of the whole array, if it must be joined again. `sharded`: other
    ranks have other parts."""

    arrays: list[Any]
    shape: tuple[int, ...] | None = None
    sharded: bool = False


class ArrayKind(NamedTuple):
    """How to treat the values of one framework. `view` returns an array over a part of the memory, `copy_all` copies
    arrays into such views, and `read` returns a new array.

    `children`, `rebuild`: the children of an object that is a node of a tree, or None, and such an object with others.
    `join`: an array like the script's from this rank's parts. `place`: an array on the same devices as the script's.
    """

    name: str
    parts: Callable[[Any, str], LocalParts]
    describe: Callable[[Any, str], Described]
    view: Callable[[Any, str, tuple[int, ...], int], Any]
    copy_all: Callable[[list[Any], list[Any]], None]
    read: Callable[[Any, str, tuple[int, ...], int], Any]
    children: Callable[[Any], Sequence[Any] | None] | None = None
    rebuild: Callable[[Any, list[Any]], Any] | None = None
    join: Callable[[Any, tuple[int, ...], list[Any]], Any] | None = None
    place: Callable[[Any, Any], Any] | None = None


def find_kind(value: Any) -> ArrayKind | None:
    """The kind of a value; None if it is not an array of a framework that the script has imported."""
    package = type(value).__module__.partition(".")[0]
    if package in ("torch", "numpy", "paddle"):
        kind = load_kind(package)
        return kind if isinstance(value, _array_types(package)) else None
    if "jax" in sys.modules:
        kind = load_kind("jax")
        if isinstance(value, sys.modules["jax"].Array) or (kind.children and kind.children(value) is not None):
            return kind
    return None


def load_kind(name: str) -> ArrayKind:
    if name not in ("torch", "numpy", "paddle", "jax"):
        raise KeyError(name)
    return _kinds.get(name) or _kinds.setdefault(name, _load(name))


_kinds: dict[str, ArrayKind] = {}


def _load(name: str) -> ArrayKind:
    module = __import__(f"flota.worker.snapshot_{name}", fromlist=["KIND"])
    kind: ArrayKind = module.KIND
    return kind


def _array_types(package: str) -> tuple[type, ...]:
    module: Any = sys.modules[package]
    if package == "numpy":
        return module.ndarray, module.generic
    return (module.Tensor,)


def whole(value: Any, _path: str) -> LocalParts:
    """This rank has all of the array."""
    return LocalParts([value])


def refuse(path: str, what: str) -> UnsupportedState:
    return UnsupportedState(path, what)
