"""Shows log files on the console while they grow. What the console cannot take yet is read from the files later."""

from __future__ import annotations

import os
import time
from _collections_abc import Container, Iterable, Sequence

from flota import libc
from flota.files import open_file
from flota.logs.directory import append
from flota.logs.nonblocking_writer import NonblockingWriter

CHUNK = 256 << 10
LONGEST_LINE = 1 << 20
MOST_SEGMENTS = 64  # rotated files by which a slow console may be behind
IN_MODIFY = 0x2
EVENT_SIZE = 16
OVERFLOWED = -1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEEP_UP_TO = -1, -3, 64 << 20
USUAL_HEIGHT = 24  # rows of a terminal that does not know its size
# Readable on dark and on light backgrounds; without red and yellow, the colours of errors and warnings.
RANK_COLOURS = b"36", b"35", b"32", b"94", b"1;36", b"1;35", b"1;32", b"1;94"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.logs.progress_bars import ProgressBars


class Segment:
    """One file of a log. With rotation a log has several, which are read one after the other."""

    def __init__(self, path: str) -> None:
        self.fd = open_file(path, os.O_RDONLY)
        self.position = 0
        self.skipped: list[tuple[int, int]] = []  # the round headers, which are not shown

    def read(self) -> tuple[bytes, bool]:
        """Return the next bytes of the worker's own output. The flag says that a round's output has ended here."""
        if self.skipped and self.position == self.skipped[0][0]:
            self.position = self.skipped.pop(0)[1]
            return b"", True
        limit = min(CHUNK, self.skipped[0][0] - self.position) if self.skipped else CHUNK
        data = os.pread(self.fd, limit, self.position)
        if not data and os.fstat(self.fd).st_size < self.position:
            self.position, self.skipped = 0, []  # the file was truncated: read it from the start
        self.position += len(data)
        return data, False


class FollowedLog:
    """A log that is shown on the console: its files, and its line that is not ended yet."""

    def __init__(
        self, path: str, prefix: bytes, words: Sequence[bytes] = (), copy: int = -1, colour: bytes = b""
    ) -> None:
        self.path = path
        self.number = 0  # the order in which logs were followed, and their bars are drawn
        self.prefix = prefix
        text = prefix.rstrip()
        self.shown_prefix = b"\x1b[%bm%b\x1b[0m%b" % (colour, text, prefix[len(text) :]) if text and colour else prefix
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

    def skip_to_end(self) -> None:
        while len(self.segments) > 1:
            os.close(self.segments.pop(0).fd)
        self.segments[0].position, self.segments[0].skipped = os.fstat(self.segments[0].fd).st_size, []
        self.partial = b""

    def read(self) -> tuple[bytes, bool]:
        data, round_ended = self.segments[0].read()
        if not data and not round_ended:
            if len(self.segments) > 1:
                os.close(self.segments.pop(0).fd)
            else:
                self.changed = False
        return data, round_ended


class LogFollower:
    """Shows logs through one writer: a single log byte for byte, several logs in whole lines and progress bars."""

    def __init__(self, writer: NonblockingWriter, *, timestamps: bool, terminal: bool) -> None:
        self.writer = writer
        self.timestamps = timestamps
        self.terminal = terminal  # the writer writes to a terminal that understands escape sequences
        self.logs: list[FollowedLog] = []
        self.bars: ProgressBars | None = None  # None until there is one
        self._followed = 0
        # Becomes readable when a watched file has changed; -1 where the system has no inotify.
        self.inotify = libc.call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self.needs_polling = self.inotify < 0  # without inotify, or without a free watch
        self._watched: dict[int, FollowedLog] = {}
        # Without this the C library maps memory for each large buffer, and the kernel has to clear it every time.
        libc.call("mallopt", M_MMAP_THRESHOLD, KEEP_UP_TO)
        libc.call("mallopt", M_TRIM_THRESHOLD, KEEP_UP_TO)

    def follow(self, log: FollowedLog) -> None:
        self._followed += 1
        log.number = self._followed
        self.logs.append(log)
        self._watch(log)

    def keep_only(self, paths: Container[str]) -> None:
        """Stop following logs that do not belong to this node's workers any more."""
        for log in [log for log in self.logs if log.path not in paths]:
            self._show(log, b"", last=True)
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

    def follow_replaced(self) -> None:
        """Go on in the new files of logs that were removed, as together with their directory."""
        for log in self.logs:
            if not os.fstat(log.segments[-1].fd).st_nlink:
                self.rotated(log.path)

    def rotated(self, path: str) -> None:
        """The log continues in a new file of the same name."""
        log = next((log for log in self.logs if log.path == path), None)
        if log is None:
            return
        try:
            log.segments.append(Segment(log.path))
        except OSError:
            return  # the directory was removed: there is nothing more to show
        if len(log.segments) > MOST_SEGMENTS:
            os.close(log.segments.pop(0).fd)
            self._write_lines(b"... (flota: lines were rotated away before they could be shown)\n")
        log.changed = True
        self._watch(log)

    @property
    def busy(self) -> bool:
        """Whether a log has more to show and the writer takes more."""
        return not self.writer.pending and any(self._has_more(log) for log in self.logs)

    def _has_more(self, log: FollowedLog) -> bool:
        """When the console is closed, matching lines are still copied."""
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

    def skip_to_ends(self) -> None:
        """Show only what is written from now on. Logs with words have been read all the time."""
        self.bars = None
        for log in self.logs:
            if not log.words:
                log.skip_to_end()

    def pump(self) -> None:
        """Show one chunk of each log that has changed, then the progress bars, while the writer takes it."""
        for log in self.logs:
            if self.writer.pending:
                return
            if self._has_more(log):
                data, round_ended = log.read()
                self._show(log, data, last=round_ended)
        if self.bars and self.until_bars(None) == 0:
            self.writer.write(*self.bars.draw(self._height()))

    def until_bars(self, wait: float | None) -> float | None:
        """How long the loop may wait before progress bars have to be shown: at most `wait` seconds."""
        if not self.bars or self.bars.deadline is None or self.writer.pending or self.writer.closed:
            return wait
        left = max(0.0, self.bars.deadline - time.monotonic())
        return left if wait is None else min(wait, left)

    def finish(self) -> None:
        """Show incomplete last lines: the rest will not be written."""
        for log in self.logs:
            self._show(log, b"", last=True)

    def end_line(self) -> None:
        """Let another writer to the same terminal begin at the start of an empty line."""
        if self.bars and not self._as_it_is:
            self.writer.write(self.bars.erase(time.monotonic()))
        elif not self.writer.at_line_start:
            self.writer.write(b"\n")

    @property
    def at_line_start(self) -> bool:
        """Whether the cursor is at the start of an empty line, and no progress bar is shown or about to be."""
        return self.writer.at_line_start and not (self.bars and self.bars.any)

    @property
    def _as_it_is(self) -> bool:
        """Whether bytes are shown as workers write them: one log, and nothing to put before its lines."""
        return len(self.logs) == 1 and not self.timestamps and not self.logs[0].prefix

    def _show(self, log: FollowedLog, data: bytes, *, last: bool) -> None:
        if self._as_it_is:
            self.writer.write(data)
            if not log.words:
                return
        body, log.partial = split_lines(log.partial + data if log.partial else data, last=last)
        if log.words:
            append(log.copy, b"".join(prefixed(matching(body, log.words), log.prefix)))
        if self._as_it_is:
            return
        stamp = time.strftime("%Y-%m-%d %H:%M:%S ").encode() if self.timestamps else b""
        prefix = stamp + log.shown_prefix
        if self.bars or b"\r" in log.partial:
            self._update_bar(log, prefix)
        if body:
            self._write_lines(*prefixed(body, prefix))

    def _update_bar(self, log: FollowedLog, prefix: bytes) -> None:
        if not self.bars:
            from flota.logs.progress_bars import ProgressBars

            self.bars = ProgressBars(terminal=self.terminal)
        self.bars.update(log.number, prefix, log.partial, time.monotonic())

    def _write_lines(self, *lines: bytes | memoryview) -> None:
        self.writer.write(*(self.bars.show_lines(self._height(), lines) if self.bars else lines))

    def _height(self) -> int:
        try:
            return (self.terminal and os.get_terminal_size(self.writer.fd).lines) or USUAL_HEIGHT
        except OSError:
            return USUAL_HEIGHT


def split_lines(data: bytes, *, last: bool = False) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of the next one. That one is ended here if it is the last or too long to keep."""
    if b"\r" in data:
        from flota.logs.progress_bars import last_state, split_bars

        body, rest = split_bars(data)
    else:
        cut = data.rfind(b"\n") + 1
        body, rest = data[:cut], data[cut:]
    if not rest or (not last and len(rest) <= LONGEST_LINE):
        return body, rest
    text = last_state(rest) if b"\r" in rest else rest
    return body + text + b"\n" if text else body, b""  # a bar that was erased is not a line


def prefixed(body: bytes, prefix: bytes) -> tuple[bytes | memoryview, ...]:
    """Put the prefix before each of these whole lines: with one copy of them, without a loop."""
    if not prefix or not body:
        return (body,)
    return prefix, memoryview(body.replace(b"\n", b"\n" + prefix))[: -len(prefix)]


def matching(body: bytes, words: Iterable[bytes]) -> bytes:
    """Return the lines that contain one of the words."""
    return b"".join(line for line in body.splitlines(keepends=True) if any(word in line for word in words))
