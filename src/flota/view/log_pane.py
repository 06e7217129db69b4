"""The log of the chosen rank, followed in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from posixpath import basename
from threading import Event, Thread

from textual.timer import Timer

from flota.control.client import JobClient
from flota.control.running_logs import LogsOfNode
from flota.errors import CannotAsk
from flota.job.printable import printable
from flota.logs.choose_ranks import Choice
from flota.logs.log_parts import parts_of
from flota.view.lines_view import TextLines
from flota.view.model import RankRow

DELAY = 0.25  # seconds for which a rank must be chosen before its log is read: keys may repeat quickly
PERIOD = 0.5  # seconds between two looks at new lines: a rank that prints much costs no more than others
MOST_LINES = 5000
FIRST_BYTES = 256 << 10
LONGEST_LINE = 1000  # columns


class LogPane(TextLines):
    def __init__(self, job: JobClient) -> None:
        super().__init__()
        self._job = job
        self._row: RankRow | None = None  # the rank whose log is shown
        self._thread: LogThread | None = None
        self._new: list[str] = []  # lines that are not shown yet
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self.set_interval(PERIOD, self._show_new)

    def on_unmount(self) -> None:
        if self._thread:
            self._thread.stop()

    def choose(self, row: RankRow) -> None:
        if self._timer:
            self._timer.stop()
        if self._row is None or (row.key, row.seat) != (self._row.key, self._row.seat):
            self._timer = self.set_timer(DELAY, lambda: self._begin(row))

    def follow_again(self) -> None:
        """Its node had stopped answering."""
        if self._row and self._thread and not self._thread.is_alive():
            self._follow(self._row)

    def _begin(self, row: RankRow) -> None:
        self._row, self._new = row, []
        where = f"rank {row.rank} on {row.host}"
        lines = [] if row.logs else ["this rank has no log"]
        self.set_text(printable(f"{where}: {basename(row.logs[0])}" if row.logs else where), lines, at_end=True)
        if row.logs:
            self._follow(row)

    def _follow(self, row: RankRow) -> None:
        if self._thread:
            self._thread.stop()
        self._thread = LogThread(self._job.another(), row, self._take)
        self._thread.start()

    def _take(self, thread: LogThread, lines: list[str]) -> None:
        """Called by the thread."""
        if thread is self._thread:
            self._new = lines

    def _show_new(self) -> None:
        if self._new and self._new is not self.lines:
            self.lines = self._new
            self.show()


class LogThread(Thread):
    """Follows the log of one rank. `deliver` gets the lines so far, bounded, after each part."""

    def __init__(self, job: JobClient, row: RankRow, deliver: Callable[[LogThread, list[str]], object]) -> None:
        super().__init__(daemon=True)
        self._job, self._row, self._deliver = job, row, deliver
        self._stopped = Event()

    def run(self) -> None:
        lines: list[str] = []
        rest = b""
        try:
            for part in self._parts():
                *whole, rest = (rest + part).replace(b"\r\n", b"\n").split(b"\n")
                lines = [*lines, *map(_readable, whole)][-MOST_LINES:]
                rest = rest[-LONGEST_LINE * 4 :]
                self._deliver(self, [*lines, _readable(rest)] if rest else lines)
        except CannotAsk as error:
            if not lines:
                self._deliver(self, [f"the log cannot be shown: {error.why}"])

    def _parts(self) -> Iterator[bytes]:
        """The end of the log, and then what is added to it. The node of a log on this machine is asked only once, and
        another one until it has ended."""
        choice = Choice((self._row.rank,), self._row.role)
        node = LogsOfNode(self._job.client_of(self._row.seat), self._row.host)
        is_local = bool(node.client.pid)
        node.update(node.ask(follow=not is_local), choice)
        path, log = next(iter(node.logs.items()), ("", None))
        if log and log.parts:
            log.place = log.parts[-1].inode, max(0, log.parts[-1].size - FIRST_BYTES)
        has_ended = log is None
        while log and not has_ended and not self._stopped.is_set():
            if is_local:
                log.parts = parts_of(path)
                data, _ = log.advance(FIRST_BYTES)
            else:
                polled = node.poll(choice)
                data = b"".join(data for one, data, _ in polled.news if one is log)
                has_ended = polled.has_ended and not data
            if data:
                yield data
            else:
                self._stopped.wait(PERIOD)
        node.client.close()

    def stop(self) -> None:
        self._stopped.set()


def _readable(line: bytes) -> str:
    """The last state of a progress bar, without colours and tabs."""
    text = line.rpartition(b"\r")[2].decode(errors="replace")
    return printable(text, LONGEST_LINE).expandtabs()
