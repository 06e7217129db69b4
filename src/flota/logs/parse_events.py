"""Parses the files that flota wrote for programs. They may be damaged, or written by another program. Pure."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

MOST_EVENTS = 16 << 20  # bytes of an events file that are read, from its end
LARGEST_COUNT = 1 << 31  # above any rank, pid and exit code
LARGEST_NUMBER = 1e15  # above any time


def parse_object(text: bytes) -> dict[str, Any]:
    """The JSON object in the text; empty if it contains anything else."""
    try:
        value = json.loads(text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and abs(value) <= LARGEST_COUNT


def is_count(value: object) -> TypeGuard[int]:
    return is_integer(value) and value >= 0


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number of usual size. JSON of Python may contain NaN, with which every comparison is false."""
    return isinstance(value, (int, float)) and abs(value) <= LARGEST_NUMBER
