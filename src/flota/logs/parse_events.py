"""Parses the files that flota wrote for programs. They may be damaged, or written by another program. Pure.

A node does this as well at the end of its job, when the user waits. So JSON is parsed without the json module, which
imports re: by the C function behind it.
"""

from __future__ import annotations

from _json import make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

MOST_EVENTS = 16 << 20  # bytes of an events file that are read, from its end
LARGEST_COUNT = 1 << 31  # above any rank, pid and exit code
LARGEST_NUMBER = 1e15  # above any time


class ScannerSettings:
    """Those of json.loads. Any object with these attributes is accepted."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


scan = make_scanner(ScannerSettings)  # type: ignore[arg-type]


def parse_object(text: bytes) -> dict[str, Any]:
    """The JSON object in the text; empty if it contains anything else."""
    words = text.decode(errors="replace").strip()
    try:
        value, end = scan(words, 0)
    except (ValueError, RecursionError, StopIteration):
        return {}
    return value if isinstance(value, dict) and end == len(words) else {}


def is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and abs(value) <= LARGEST_COUNT


def is_count(value: object) -> TypeGuard[int]:
    return is_integer(value) and value >= 0


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number of usual size. JSON of Python may contain NaN, with which every comparison is false."""
    return isinstance(value, (int, float)) and abs(value) <= LARGEST_NUMBER


def parse_time(clock: object) -> float:
    """Seconds since 1970; 0.0 if it is not a time."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(str(clock)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
