"""What a failed worker said last: its traceback, or its last lines."""

from __future__ import annotations

import os

LOOK_BACK = 64 << 10
MARK = "Traceback (most recent call last):"
WIDEST = 200


def read_tail(path: str, start: int) -> list[str]:
    """The last lines of a log, not reaching back beyond `start`."""
    try:
        with open(path, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = log.seek(max(start, size - LOOK_BACK))
            text = log.read().decode(errors="replace")
    except OSError:
        return []
    lines = [_printable(line.rstrip().rpartition("\r")[2]) for line in text.split("\n")]  # a progress bar's last state
    return lines[1:] if begin > start else lines


def _printable(line: str) -> str:
    return "".join(char for char in line if char.isprintable() or char == "\t")


def last_traceback(lines: list[str]) -> list[str]:
    """The last Python traceback, without what a framework put before each of its lines (`[rank1]: `)."""
    for number in range(len(lines) - 1, -1, -1):
        found = lines[number].find(MARK)
        if found >= 0:
            prefix = lines[number][:found]
            return _block([line.removeprefix(prefix) for line in lines[number:]])
    return []


def _block(lines: list[str]) -> list[str]:
    """From the mark to the exception's line, and the indented lines that go on with its message."""
    end = 1
    while end < len(lines) and (lines[end].startswith(" ") or not lines[end]):
        end += 1
    end += 1
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return [line for line in lines[:end] if line]


def shorten(lines: list[str], most: int) -> list[str]:
    """At most so many lines: the first and the last are the ones that tell."""
    lines = [line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…" for line in lines]
    if len(lines) <= most:
        return lines
    return [lines[0], "  …", *lines[len(lines) - most + 2 :]]


def last_lines(lines: list[str], most: int) -> list[str]:
    said = [line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…" for line in lines if line]
    return said[-most:]
