"""What Paddle's launcher prints at the start: the job's configuration, and a table of a worker's variables.

As its documentation shows them, or narrower on a narrow terminal.
"""

from __future__ import annotations

import os
from _collections_abc import Iterable

from flota.logs.own_logs import stamp

NAME_WIDTH, GAP, VALUE_WIDTH = 40, 2, 45
TABLE_WIDTH = NAME_WIDTH + GAP + VALUE_WIDTH
LEAST_VALUE_WIDTH = 12
NO_LIMIT = 1 << 16  # columns
START_LINE = "Local start {} processes. First process distributed environment info (Only For Debug):"


def columns_of(fd: int) -> int:
    """The width of a terminal. Some have none."""
    return (os.get_terminal_size(fd).columns if os.isatty(fd) else 0) or NO_LIMIT


def configuration_block(pairs: Iterable[tuple[str, str]], columns: int) -> str:
    lines = [_start_of(f"{name}: {value}".rstrip(), columns) for name, value in sorted(pairs)]
    return "\n".join(["-----------  Configuration Arguments -----------", *lines, "-" * 48])


def start_line(workers: int, columns: int) -> str:
    line = stamp("INFO") + START_LINE.format(workers)
    return line if len(line) <= columns else line.replace(". ", ".\n", 1)


def variable_table(pairs: Iterable[tuple[str, str]], columns: int) -> str:
    width = min(TABLE_WIDTH, columns)
    rows = [f"{name:<{NAME_WIDTH}}{'':{GAP}}{_end_of(value, width)}".rstrip() for name, value in pairs]
    head = f"{'Distributed Envs':^{NAME_WIDTH}}{'':{GAP}}Value"
    return "\n".join(["=" * width, head, "-" * width, *rows, "=" * width])


def _start_of(line: str, columns: int) -> str:
    return line if len(line) <= columns else f"{line[: columns - 4]} ..."


def _end_of(value: str, width: int) -> str:
    """The end of a long value is what differs between workers."""
    room = max(LEAST_VALUE_WIDTH, width - NAME_WIDTH - GAP)
    return value if len(value) <= room else f"... {value[4 - room :]}"
