"""Prints what a command with --json answers."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: object) -> None:
    print(json.dumps(value, indent=1, default=_plain))


def _plain(value: object) -> Any:
    """A value of the control API, as docs/reference/control.md describes it."""
    from msgspec import to_builtins

    return to_builtins(value)
