"""A state as a tree of plain values, and back: JSON for the tree, a list of arrays beside it. Nothing is pickled.

Lists have a tag first, so that a tuple, a dict with any keys and an array come back as what they were. A value that
cannot be written is refused with its path.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from flota.errors.snapshots import BrokenSnapshot, UnsupportedState
from flota.values import NamedTuple
from flota.worker import snapshot_arrays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flota.worker.snapshot_arrays import ArrayKind

MISSING: Any = object()  # there is no value of the script to restore
PLAIN = (str, int, bool, type(None))
SIMPLE: dict[type, Callable[[Any], Any]] = {
    float: lambda value: ["f", str(value)],  # inf and nan, which JSON does not have
    complex: lambda value: ["c", value.real.hex(), value.imag.hex()],
    bytes: lambda value: ["b", value.hex()],
}


class SavedArray(NamedTuple):
    """An array of the tree: which framework's, and its place in the buffer."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


class Flattened:
    """The arrays of a state, in the order of their places, and its tree."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.saved: list[SavedArray] = []
        self.size = 0  # bytes of all arrays
        self.sharded = False  # whether an array has only this rank's part
        self.tree: dict[str, Any] = {}

    def add_part(self, name: str, value: Any) -> None:
        try:
            self.tree[name] = self._encode(value, name)
        except RecursionError:
            raise UnsupportedState(name, "a value that contains itself, or is nested too deeply") from None

    def to_json(self, name: str) -> bytes:
        return json.dumps({"name": name, "parts": self.tree, "arrays": self.saved}, separators=(",", ":")).encode()

    def _encode(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in PLAIN or (kind is float and math.isfinite(value)):
            return value
        if isinstance(value, dict):
            keys = [self._encode_key(key, path) for key in value]
            return ["d", keys, [self._encode(one, f"{path}.{key}") for key, one in value.items()]]
        if kind is list or isinstance(value, tuple):
            tag = "l" if kind is list else "t"
            return [tag, *(self._encode(one, f"{path}.{number}") for number, one in enumerate(value))]
        simple = SIMPLE.get(kind)
        return simple(value) if simple else self._encode_other(value, path)

    def _encode_key(self, key: Any, path: str) -> Any:
        if type(key) in (*PLAIN, float, tuple, bytes):
            return self._encode(key, f"{path} (a key)")
        raise UnsupportedState(path, f"a key of the type {type(key).__name__}")

    def _encode_other(self, value: Any, path: str) -> Any:
        array = snapshot_arrays.find_kind(value)
        if array is None:
            raise UnsupportedState(path, f"an object of the type {type(value).__module__}.{type(value).__qualname__}")
        if array.children is not None and (children := array.children(value)) is not None:
            return ["n", *(self._encode(one, f"{path}.{number}") for number, one in enumerate(children))]
        parts = array.parts(value, path)
        self.sharded = self.sharded or parts.sharded
        numbers = [self._add_array(array, one, path) for one in parts.arrays]
        return ["a", numbers[0]] if parts.shape is None else ["s", list(parts.shape), numbers]

    def _add_array(self, array: ArrayKind, value: Any, path: str) -> int:
        dtype, shape, size = array.describe(value, path)
        self.arrays.append(value)
        self.saved.append(SavedArray(array.name, dtype, shape, self.size, size))
        self.size += -(-size // 64) * 64
        return len(self.saved) - 1


class Shards(NamedTuple):
    """This rank's part of an array that other ranks have other parts of."""

    shape: tuple[int, ...]
    arrays: list[Any]


class SavedTree:
    """A saved state. `read_array` returns a new array with a copy of the bytes."""

    def __init__(self, text: bytes, where: str, read_array: Callable[[SavedArray], Any]) -> None:
        self._read_array = read_array
        self._where = where
        try:
            whole = json.loads(text)
            self.name: str = whole["name"]
            self._parts: dict[str, Any] = whole["parts"]
            self.saved = [
                SavedArray(kind, dtype, tuple(shape), offset, size)
                for kind, dtype, shape, offset, size in whole["arrays"]
            ]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BrokenSnapshot(where, f"its list of parts cannot be read ({type(error).__name__}: {error})") from None

    @property
    def names(self) -> list[str]:
        return list(self._parts)

    def part(self, name: str, like: Any = MISSING) -> Any:
        """The saved value. Where `like` has named tuples, or objects of JAX, the value has the same."""
        try:
            return self._decode(self._parts[name], like)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
            raise BrokenSnapshot(
                self._where, f"part `{name}` cannot be read ({type(error).__name__}: {error})"
            ) from None

    def _decode(self, node: Any, like: Any) -> Any:
        if not isinstance(node, list):
            return node
        tag, *rest = node
        if tag == "l":
            return [self._decode(one, child_of(like, number)) for number, one in enumerate(rest)]
        if tag == "t":
            values = [self._decode(one, child_of(like, number)) for number, one in enumerate(rest)]
            named = isinstance(like, tuple) and hasattr(like, "_fields") and len(like) == len(values)
            return type(like)(*values) if named else tuple(values)
        if tag == "d":
            keys = [self._decode(key, MISSING) for key in rest[0]]
            return {key: self._decode(one, child_of(like, key)) for key, one in zip(keys, rest[1])}
        return self._decode_leaf(tag, rest, like)

    def _decode_leaf(self, tag: str, rest: list[Any], like: Any) -> Any:
        if tag == "f":
            return float(rest[0])
        if tag == "b":
            return bytes.fromhex(rest[0])
        if tag == "c":
            return complex(*map(float.fromhex, rest))
        kind = None if like is MISSING else snapshot_arrays.find_kind(like)
        if tag == "n":
            if kind is None or kind.rebuild is None or kind.children is None:
                raise TypeError("pass an object of the same type to load")
            children = kind.children(like) or ()
            return kind.rebuild(like, [self._decode(one, child) for one, child in zip(rest, children)])
        if tag == "s":
            shards = Shards(tuple(rest[0]), [self._read_array(self.saved[number]) for number in rest[1]])
            return shards if kind is None or kind.join is None else kind.join(like, shards.shape, shards.arrays)
        if tag != "a":
            raise TypeError(f"unknown tag {tag!r}")
        saved = self.saved[rest[0]]
        array, place = self._read_array(saved), snapshot_arrays.load_kind(saved.kind).place
        return place(like, array) if place else array


def child_of(like: Any, key: Any) -> Any:
    if isinstance(like, dict):
        return like.get(key, MISSING)
    if isinstance(like, (list, tuple)) and isinstance(key, int) and key < len(like):
        return like[key]
    return MISSING
