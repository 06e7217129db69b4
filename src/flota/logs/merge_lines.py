"""Prepares lines of several ranks for the reader: chooses, folds and labels them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from flota.humanize import workers_in_words
from flota.job.printable import printable
from flota.job.roles import TRAINER, label
from flota.logs.follow import RANK_COLOURS
from flota.values import NamedTuple

Text = TypeVar("Text", bytes, str)


class Speaker(NamedTuple):
    """Whose log it is. `node`: the number of its node."""

    role: str
    rank: int
    host: str = ""
    node: int = 0

    def prefix(self, *, coloured: bool) -> bytes:
        """As on the console of a job."""
        name = str(self.rank) if self.role == TRAINER else label(self.role, self.rank)
        text = printable(f"[{self.host}:{name}]" if self.host else f"[{name}]").encode(errors="replace")
        colour = RANK_COLOURS[self.rank % len(RANK_COLOURS)]
        return b"\x1b[%bm%b\x1b[0m " % (colour, text) if coloured else text + b" "


def folded_prefix(speakers: Sequence[Speaker]) -> bytes:
    who = workers_in_words((one.role, one.rank) for one in speakers)
    return printable(f"[{who} x{len(speakers)}] ").encode(errors="replace")


def grep(body: bytes, pattern: re.Pattern[bytes]) -> bytes:
    """The lines in which the pattern is found."""
    return b"".join(line for line in body.splitlines(keepends=True) if pattern.search(line.rstrip(b"\n")))


def fold(bodies: Sequence[bytes]) -> list[tuple[tuple[int, ...], bytes]]:
    """Print lines that several bodies contain once. Returns numbers of bodies with what all of these contain.

    The lines of each body stay in order, unless two bodies have the same lines in different orders.
    """
    same: dict[bytes, list[int]] = {}
    for number, body in enumerate(bodies):
        same.setdefault(body, []).append(number)
    result: list[tuple[tuple[int, ...], list[bytes]]] = []
    numbers = list(same.values())
    for line, owners in fold_lines([body.splitlines(keepends=True) for body in same]):
        who = tuple(sorted(number for owner in owners for number in numbers[owner]))
        if result and result[-1][0] == who:
            result[-1][1].append(line)
        else:
            result.append((who, [line]))
    return [(who, b"".join(lines)) for who, lines in result]


def fold_lines(bodies: Sequence[Sequence[Text]]) -> Iterator[tuple[Text, list[int]]]:
    """Each line once, with the numbers of the bodies that contain it."""
    return _in_order([_count_repeated(body) for body in bodies])


def _count_repeated(lines: Sequence[Text]) -> list[tuple[Text, int]]:
    """Each line with how often the body has had it before: a line that a body repeats is repeated in the result."""
    times: dict[Text, int] = {}
    counted = []
    for line in lines:
        count = times.get(line, 0)
        times[line] = count + 1
        counted.append((line, count))
    return counted


def _in_order(bodies: list[list[tuple[Text, int]]]) -> Iterator[tuple[Text, list[int]]]:
    """Each line with the bodies that contain it, once it is the next one of all of them."""
    owners: dict[tuple[Text, int], list[int]] = {}
    for number, lines in enumerate(bodies):
        for line in lines:
            owners.setdefault(line, []).append(number)
    at_head = dict.fromkeys(owners, 0)
    following = [iter(lines) for lines in bodies]
    heads: list[tuple[Text, int] | None] = [None] * len(bodies)
    ready: list[tuple[Text, int]] = []  # the last one comes next: so the lines of one body stay together

    def advance(number: int) -> None:
        head = heads[number] = next((line for line in following[number] if line in at_head), None)
        if head is not None:
            at_head[head] += 1
            if at_head[head] == len(owners[head]):
                ready.append(head)

    for number in reversed(range(len(bodies))):
        advance(number)
    while at_head:
        # If none is ready, two bodies have lines in different orders.
        line = ready.pop() if ready else next(head for head in heads if head is not None)
        del at_head[line]
        yield line[0], owners[line]
        for number in reversed(owners[line]):
            if heads[number] == line:
                advance(number)


def as_json(body: bytes, speaker: Speaker, time: float | None) -> bytes:
    """One object per line."""
    facts = {"role": speaker.role, "rank": speaker.rank, "host": speaker.host}
    common = {**facts, "time": None if time is None else round(time, 3)}
    lines: Iterable[bytes] = body.splitlines()
    return b"".join(json.dumps({**common, "line": line.decode(errors="replace")}).encode() + b"\n" for line in lines)
