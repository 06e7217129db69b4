"""The banners that flota prints at the start, as Paddle's launcher does: its configuration and a worker's variables."""

from __future__ import annotations

from _collections_abc import Iterable

NAME_WIDTH, GAP, VALUE_WIDTH = 40, 2, 45


def configuration(pairs: Iterable[tuple[str, str]]) -> str:
    lines = [f"{name}: {value}".rstrip() for name, value in sorted(pairs)]
    return "\n".join(["-----------  Configuration Arguments -----------", *lines, "-" * 48])


def start_line(processes: int) -> str:
    return f"Local start {processes} processes. First process distributed environment info (Only For Debug):"


def table(pairs: Iterable[tuple[str, str]]) -> str:
    width = NAME_WIDTH + GAP + VALUE_WIDTH
    rows = [f"{name:<{NAME_WIDTH}}{'':{GAP}}{_end_of(value)}".rstrip() for name, value in pairs]
    head = f"{'Distributed Envs':^{NAME_WIDTH}}{'':{GAP}}Value"
    return "\n".join(["=" * width, head, "-" * width, *rows, "=" * width])


def _end_of(value: str) -> str:
    """The end of a long value is what differs between workers."""
    return value if len(value) <= VALUE_WIDTH else f"... {value[4 - VALUE_WIDTH :]}"
