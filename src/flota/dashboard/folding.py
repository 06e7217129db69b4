"""Folds equal lines of several ranks into one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flota.logs.directory import ROUND_HEADER
from flota.logs.merge_lines import fold_lines

MOST_LINES = 2000
LONGEST_LINE = 4096  # characters


def clean_lines(text: bytes) -> list[str]:
    """Complete lines of a log. A progress bar overwrites its line: what it showed last is kept."""
    lines = text.decode(errors="replace").split("\n")
    return [line.rstrip("\r").rpartition("\r")[2][:LONGEST_LINE] for line in lines[:-1]]


def fold(logs: Iterable[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """Lines of the logs of several ranks, oldest first. A line that many ranks have is there once, with all of them.

    Logs have no times. So those of a round are folded from their ends, where ranks that do the same have equal lines.
    """
    rounds: dict[int, list[tuple[str, list[str]]]] = {}
    for rank, lines in logs:
        for number, part in _split_rounds(lines):
            rounds.setdefault(number, []).append((rank, part[::-1]))
    rows: list[dict[str, Any]] = []
    for _, parts in sorted(rounds.items()):
        names = [rank for rank, _ in parts]
        folded = fold_lines([lines for _, lines in parts])
        rows += [{"text": line, "ranks": [names[one] for one in sorted(owners)]} for line, owners in folded][::-1]
    return rows[-MOST_LINES:]


def _split_rounds(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of each round, with its number. The header of a round becomes the same for all ranks."""
    number = -1
    part: list[str] = []
    for line in lines:
        if line.startswith(ROUND_HEADER):
            yield number, part
            words = line.partition(", rank ")[0].split("round ")[-1].split(",")[0]
            number, part = int(words) if words.isdecimal() else number, [f"{ROUND_HEADER}round {words} ====="]
        else:
            part.append(line)
    yield number, part
