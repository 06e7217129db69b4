"""Folds equal lines of several ranks into one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flota.logs.directory import ROUND_HEADER

MOST_LINES = 2000
LONGEST_LINE = 4096  # characters
NEWEST, OLDEST = ("", 0), ("", -1)  # the ends of a chain


def clean_lines(text: bytes) -> list[str]:
    """Complete lines of a log. A progress bar overwrites its line: what it showed last is kept."""
    lines = text.decode(errors="replace").split("\n")
    return [line.rstrip("\r").rpartition("\r")[2][:LONGEST_LINE] for line in lines[:-1]]


def fold(logs: Iterable[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """Lines of the logs of several ranks, oldest first. A line that many ranks have is there once, with all of them.

    Logs have no times. So those of a round are aligned at their ends, where ranks that do the same have the same lines.
    """
    rounds: dict[int, _FoldedRound] = {}
    for rank, lines in logs:
        for number, part in _split_rounds(lines):
            rounds.setdefault(number, _FoldedRound()).add(rank, part)
    rows = [row for number in sorted(rounds) for row in rounds[number].rows()]
    return rows[-MOST_LINES:]


class _FoldedRound:
    """A chain of lines from the newest to the oldest. A line is the text, and how often a rank had it after that."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, int], list[str]] = {}
        self._older: dict[tuple[str, int], tuple[str, int]] = {NEWEST: OLDEST}

    def add(self, rank: str, lines: list[str]) -> None:
        """A line that no rank had before comes between its neighbours."""
        seen: dict[str, int] = {}
        last = NEWEST
        for text in reversed(lines):
            seen[text] = seen.get(text, 0) + 1
            line = text, seen[text]
            if line not in self._ranks:
                self._ranks[line] = []
                self._older[line], self._older[last] = self._older[last], line
            self._ranks[line].append(rank)
            last = line

    def rows(self) -> list[dict[str, Any]]:
        found, line = [], self._older[NEWEST]
        while line != OLDEST:
            found.append({"text": line[0], "ranks": self._ranks[line]})
            line = self._older[line]
        return found[::-1]


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
