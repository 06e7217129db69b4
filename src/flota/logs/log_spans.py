"""Divides logs into spans whose times are known, from what a node noted in times.<node>.jsonl while they grew. Pure."""

from __future__ import annotations

import msgspec

from flota.logs.log_parts import LogPart
from flota.values import NamedTuple

Place = tuple[int, int]  # in a log: the inode of a file, and an offset in it
BEGINNING: Place = (0, 0)  # of the oldest file


class Mark(NamedTuple):
    """The size of a file at this time, in seconds since 1970."""

    inode: int
    size: int
    time: float


class Span(NamedTuple):
    """Bytes of one file of a log. `time`: when the last of them was written, if that `is_known`; otherwise a time
    before it, such as that of the round's start."""

    time: float
    is_known: bool
    inode: int
    begin: int
    end: int


class LogHistory(NamedTuple):
    """What is noted about one log: where each round of a job begins, and marks in order of time."""

    rounds: tuple[Mark, ...] = ()
    marks: tuple[Mark, ...] = ()


class _Line(msgspec.Struct):
    at: float = 0.0
    pid: int = 0
    starts: dict[str, tuple[int, int]] = {}
    sizes: dict[str, tuple[int, int, float]] = {}


_DECODER = msgspec.json.Decoder(_Line)


def parse_times(text: bytes) -> list[_Line]:
    """The lines of times.<node>.jsonl. Those that flota did not write are skipped."""
    lines = []
    for line in text.splitlines():
        try:
            lines.append(_DECODER.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return lines


def job_histories(text: bytes, began: float, pid: int, skew: float, ahead: float) -> dict[str, LogHistory]:
    """The histories of logs by name, for the job that a process began at this time.

    It notes its first round up to `skew` seconds before. `ahead`: what its clock is ahead of that of the reader.
    """
    rounds: dict[str, list[Mark]] = {}
    marks: dict[str, list[Mark]] = {}
    for line in parse_times(text):
        if line.at >= began or (line.pid == pid and line.at >= began - skew):
            for name, (inode, offset) in line.starts.items():
                rounds.setdefault(name, []).append(Mark(inode, offset, line.at - ahead))
        for name, (inode, size, at) in line.sizes.items():
            if at >= began - skew:
                marks.setdefault(name, []).append(Mark(inode, size, at - ahead))
    return {name: LogHistory(tuple(own), tuple(marks.get(name, ()))) for name, own in rounds.items()}


def joined(histories: list[dict[str, LogHistory]]) -> dict[str, LogHistory]:
    """Those of several nodes that have written to the same logs, one after the other."""
    result: dict[str, LogHistory] = {}
    for name, one in (item for history in histories for item in history.items()):
        before = result.get(name, LogHistory())
        both = (sorted((*old, *new), key=lambda mark: mark.time) for old, new in zip(before, one, strict=True))
        result[name] = LogHistory(*map(tuple, both))
    return result


def last_job(headers: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The rounds of the last job, given the rounds of all jobs in a log, with their numbers at the end."""
    begins = [at for at in range(1, len(headers)) if headers[at][2] <= headers[at - 1][2]]
    return headers[begins[-1] if begins else 0 :]


def align(history: LogHistory, parts: tuple[LogPart, ...]) -> LogHistory:
    """In a copy of a log directory, files have other inodes: then the last file of the log is the last one noted."""
    noted = list(dict.fromkeys(mark.inode for mark in (*history.rounds, *history.marks)))
    if not parts or {part.inode for part in parts} & set(noted):
        return history
    last = [mark.inode for mark in history.marks[-1:] or history.rounds[-1:]]
    noted = [inode for inode in noted if inode not in last] + last
    now = {old: part.inode for old, part in zip(reversed(noted), reversed(parts), strict=False)}
    moved = [tuple(mark._replace(inode=now.get(mark.inode, 0)) for mark in marks) for marks in history]
    return LogHistory(*moved)


def spans_of(
    parts: tuple[LogPart, ...], start: Place, marks: tuple[Mark, ...], last: float, *, marks_begin: bool = False
) -> list[Span]:
    """All bytes from `start` on, in order. `last`: the time of those after the last mark.

    `marks_begin`: the marks are the beginnings of rounds, and not the ends of what was written until then.
    """
    first = next((number for number, part in enumerate(parts) if part.inode == start[0]), -1)
    offset = start[1] if first >= 0 else 0
    spans: list[Span] = []
    now = 0.0  # a span is never earlier than the one before, whatever the clock was
    for part in parts[max(first, 0) :]:
        for mark in marks:
            end = min(mark.size, part.size)
            if mark.inode != part.inode:
                continue
            if end > offset:
                now = now if marks_begin else max(now, mark.time)
                spans.append(Span(now, not marks_begin, part.inode, offset, end))
                offset = end
            now = max(now, mark.time)
        if part.size > offset:
            later = next((mark.time for mark in marks if part is not parts[-1] and mark.time > now), last)
            now = now if marks_begin else max(now, later)
            spans.append(Span(now, bool(marks) and not marks_begin, part.inode, offset, part.size))
        offset = 0
    return spans


def clock_difference(own: dict[int, float], others: dict[int, float]) -> float:
    """How far a node's clock is ahead of another's, from the times at which both have started the same rounds.

    They start them within a fraction of a second: a smaller difference says nothing about the clocks.
    """
    differences = sorted(own[number] - others[number] for number in own.keys() & others.keys())
    middle = differences[len(differences) // 2] if differences else 0.0
    return middle if abs(middle) >= 1 else 0.0
