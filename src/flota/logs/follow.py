"""Shows log files on the console while they grow. The files are the queue: what cannot be shown yet stays there."""

from __future__ import annotations

import os
import time
from _collections_abc import Container, Iterable, Sequence

from flota import libc
from flota.logs.directory import append
from flota.logs.nonblocking_writer import NonblockingWriter

CHUNK = 256 << 10
LONGEST_LINE = 1 << 20
MOST_SEGMENTS = 64  # rotated files by which a slow console may be behind
IN_MODIFY = 0x2
EVENT_SIZE = 16
OVERFLOWED = -1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEEP_UP_TO = -1, -3, 64 << 20


class Segment:
    """One file of a log: with rotation there are several, read one after the other."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.position = 0
        self.skipped: list[tuple[int, int]] = []  # the round headers, which are not shown

    def read(self) -> tuple[bytes, bool]:
        """The next bytes of the worker's own output, and whether a round header follows them."""
        while self.skipped and self.position == self.skipped[0][0]:
            self.position = self.skipped.pop(0)[1]
        limit = min(CHUNK, self.skipped[0][0] - self.position) if self.skipped else CHUNK
        data = os.pread(self.fd, limit, self.position)
        if not data and os.fstat(self.fd).st_size < self.position:
            self.position, self.skipped = 0, []  # the file was truncated: what follows is new
        self.position += len(data)
        return data, bool(self.skipped) and self.position == self.skipped[0][0]


class FollowedLog:
    """One log on its way to the console."""

    def __init__(self, path: str, prefix: bytes, words: Sequence[bytes] = (), copy: int = -1) -> None:
        self.path = path
        self.prefix = prefix
        self.words = words  # lines with one of these are copied to `copy`
        self.copy = copy
        self.partial = b""
        self.segments = [Segment(path)]
        self.begun = False
        self.changed = True

    def skip(self, begin: int, end: int) -> None:
        """Do not show a round header; before the first round, skip the whole file up to `end`."""
        self.segments[-1].skipped.append((begin if self.begun else 0, end))
        self.begun = True
        self.changed = True

    def read(self) -> tuple[bytes, bool]:
        data, round_ends = self.segments[0].read()
        if not data and len(self.segments) > 1:
            os.close(self.segments.pop(0).fd)
        elif not data:
            self.changed = False
        return data, round_ends


class LogFollower:
    """Many logs, one writer. Several logs are shown by whole lines, a single one byte by byte."""

    def __init__(self, writer: NonblockingWriter, *, timestamps: bool) -> None:
        self.writer = writer
        self.timestamps = timestamps
        self.logs: list[FollowedLog] = []
        # Becomes readable when a watched file has changed; -1 where the system has no inotify.
        self.inotify = libc.call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self.needs_polling = self.inotify < 0  # without inotify, or without a free watch
        self._watched: dict[int, FollowedLog] = {}
        # Large buffers come and go at console speed: without this each of them is mapped and faulted in again.
        libc.call("mallopt", M_MMAP_THRESHOLD, KEEP_UP_TO)
        libc.call("mallopt", M_TRIM_THRESHOLD, KEEP_UP_TO)

    def follow(self, log: FollowedLog) -> None:
        self.logs.append(log)
        self._watch(log)

    def keep_only(self, paths: Container[str]) -> None:
        """Stop following logs that do not belong to this node's workers any more."""
        for log in [log for log in self.logs if log.path not in paths]:
            self.logs.remove(log)
            for segment in log.segments:
                os.close(segment.fd)
            for number in [number for number, watched in self._watched.items() if watched is log]:
                libc.call("inotify_rm_watch", self.inotify, number)
                del self._watched[number]

    def _watch(self, log: FollowedLog) -> None:
        number = libc.call("inotify_add_watch", self.inotify, os.fsencode(log.path), IN_MODIFY)
        self.needs_polling = self.needs_polling or number < 0
        self._watched[number] = log

    def rotated(self, path: str) -> None:
        """The log continues in a new file of the same name."""
        log = next((log for log in self.logs if log.path == path), None)
        if log is None:
            return
        try:
            log.segments.append(Segment(log.path))
        except OSError:
            return  # the directory is gone: nothing more to show
        if len(log.segments) > MOST_SEGMENTS:
            os.close(log.segments.pop(0).fd)
            self.writer.write(b"... (flota: lines were rotated away before they could be shown)\n")
        log.changed = True
        self._watch(log)

    @property
    def busy(self) -> bool:
        """Whether there is something to show and the writer takes it."""
        return not self.writer.pending and any(self._has_more(log) for log in self.logs)

    def _has_more(self, log: FollowedLog) -> bool:
        """When the console is closed, lines may still have to be copied."""
        return log.changed and (not self.writer.closed or bool(log.words))

    def on_changed(self) -> None:
        data = os.read(self.inotify, 256 * EVENT_SIZE)
        for at in range(0, len(data), EVENT_SIZE):
            number = int.from_bytes(data[at : at + 4], "little", signed=True)
            if number == OVERFLOWED:
                self.mark_all_changed()
            elif number in self._watched:
                self._watched[number].changed = True

    def mark_all_changed(self) -> None:
        for log in self.logs:
            log.changed = True

    def pump(self) -> None:
        """Show one chunk of each log that has changed, while the writer takes it."""
        for log in self.logs:
            if self.writer.pending:
                return
            if self._has_more(log):
                data, round_ends = log.read()
                self._show(log, data, last=round_ends)

    def finish(self) -> None:
        """Show incomplete last lines: the rest will not be written."""
        for log in self.logs:
            self._show(log, b"", last=True)

    def _show(self, log: FollowedLog, data: bytes, *, last: bool) -> None:
        if len(self.logs) == 1 and not self.timestamps and not log.words:
            self.writer.write(data)
            return
        body, log.partial = split_at_last_line(log.partial + data if log.partial else data)
        if last and log.partial:
            body, log.partial = body + log.partial + b"\n", b""
        if log.words:
            append(log.copy, b"".join(prefixed(matching(body, log.words), log.prefix)))
        stamp = time.strftime("%Y-%m-%d %H:%M:%S ").encode() if self.timestamps else b""
        if body:
            self.writer.write(*prefixed(body, stamp + log.prefix))


def split_at_last_line(data: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of the next one. A line of more than LONGEST_LINE is cut in pieces."""
    cut = data.rfind(b"\n") + 1
    if cut == 0 and len(data) > LONGEST_LINE:
        cut = len(data)
    return data[:cut], data[cut:]


def prefixed(body: bytes, prefix: bytes) -> tuple[bytes | memoryview, ...]:
    """Whole lines, each behind the prefix: one copy of the body, without a loop over its lines."""
    if not prefix or not body:
        return (body,)
    marked = body.replace(b"\n", b"\n" + prefix)
    if body.endswith(b"\n"):
        return prefix, memoryview(marked)[: -len(prefix)]
    return prefix, marked


def matching(body: bytes, words: Iterable[bytes]) -> bytes:
    """The lines that contain one of the words."""
    return b"".join(line for line in body.splitlines(keepends=True) if any(word in line for word in words))
