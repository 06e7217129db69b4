"""Notes when the logs of this node have grown, in times.<node>.jsonl: worker output has no times of its own.

`flota logs` orders the output of several ranks by it. While no log grows, they are rarely looked at: a silent job costs
nothing, and a job of less than a second leaves no file.
"""

from __future__ import annotations

import os
import time

from flota.logs.directory import append, open_append, read_end, write_whole
from flota.logs.own_logs import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PERIOD, LONGEST_PERIOD = 1.0, 10.0  # seconds between two looks while a log grows, and while none does
LOGS_PER_SECOND = 100  # that are looked at: with more of them the period is longer
LARGEST = 1 << 20  # bytes of the file: it is thinned out when it has grown to this


def times_file(directory: str, node: str) -> str:
    return f"{directory}/times.{node}.jsonl"


class LogTimes:
    """For the logs of all rounds. `deadline`: when to look at them next."""

    def __init__(self) -> None:
        self.deadline = 0.0
        self.starts: dict[str, tuple[int, int]] = {}  # by log: where this job's output begins, as inode and offset
        self._path = ""
        self._logs: dict[str, tuple[int, int]] = {}  # those of the round: inode and size when they were last seen
        self._looked_at = 0.0
        self._period = PERIOD
        self._has_looked = False
        self._unwritten = b""
        self._thin_at = LARGEST

    def begin_round(self, path: str, number: int, marks: Mapping[str, tuple[int, int]], now: float) -> None:
        """`path`: the file to write; `marks`: the logs, and where the headers of the round begin and end."""
        if self._unwritten:
            self._write(self._unwritten)
        self._path, self._looked_at = path, time.time()
        self._logs = {log: (inode_of(log), end) for log, (_, end) in marks.items()}
        starts = {log: (self._logs[log][0], begin) for log, (begin, _) in marks.items()}
        self.starts = {**starts, **self.starts}
        names = {os.path.basename(log): start for log, start in starts.items()}
        facts = {"at": round(self._looked_at, 3), "pid": os.getpid(), "round": number}
        self._unwritten = _line({**facts, "starts": names})
        self._schedule(now, PERIOD)

    def on_time(self, now: float) -> None:
        if now >= self.deadline:
            self._has_looked = True
            self._schedule(now, PERIOD if self.look() else min(2 * self._period, LONGEST_PERIOD))

    def end_round(self) -> None:
        """All output is in the logs now."""
        if self._has_looked:
            self.look()
        self._logs = {}

    def look(self) -> bool:
        """Note the logs that have grown. Returns whether there are any."""
        clock, sizes = time.time(), {}
        for log, seen in self._logs.items():
            try:
                info = os.stat(log)
            except OSError:
                continue  # it was removed
            if (info.st_ino, info.st_size) != seen:
                self._logs[log] = info.st_ino, info.st_size
                # The time of the last write; the clock of a file server may be wrong.
                at = min(max(info.st_mtime, self._looked_at), clock)
                sizes[os.path.basename(log)] = info.st_ino, info.st_size, round(at, 3)
        self._looked_at = clock
        if sizes:
            self._write(self._unwritten + _line({"sizes": sizes}))
            self._unwritten = b""
        return bool(sizes)

    def _schedule(self, now: float, period: float) -> None:
        """Look at whole seconds of the clock, so that all nodes look at the same time."""
        self._period = period
        wait = max(period, len(self._logs) / LOGS_PER_SECOND)
        self.deadline = now + max(wait - time.time() % 1, PERIOD / 2) if self._logs else float("inf")

    def _write(self, lines: bytes) -> None:
        file = open_append(self._path)
        try:
            append(file, lines)
            if os.fstat(file).st_size >= self._thin_at:
                self._thin()
        finally:
            os.close(file)

    def _thin(self) -> None:
        try:
            thin = thinned(read_end(self._path, 4 * self._thin_at))
            write_whole(self._path, thin.decode())
            self._thin_at = max(LARGEST, 4 * len(thin) // 3)  # rounds are kept
        except (OSError, ValueError):
            self._thin_at *= 2  # a full disk, or a file that flota did not write


def inode_of(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _line(value: dict[str, object]) -> bytes:
    return to_json(value).encode() + b"\n"


def thinned(text: bytes) -> bytes:
    """Join pairs of neighbouring lines in the older half: the later size of each log stays."""
    import json

    lines = text.splitlines(keepends=True)
    half = len(lines) // 2
    kept: list[bytes] = []
    waiting: dict[str, object] = {}
    for line in lines[:half]:
        found = json.loads(line)
        if not isinstance(found, dict) or list(found) != ["sizes"]:
            kept += [_line({"sizes": waiting}), line] if waiting else [line]
            waiting = {}
        elif waiting:
            kept.append(_line({"sizes": {**waiting, **found["sizes"]}}))
            waiting = {}
        else:
            waiting = found["sizes"]
    return b"".join([*kept, *([_line({"sizes": waiting})] if waiting else []), *lines[half:]])
