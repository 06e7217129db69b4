"""Stacks of other processes: py-spy, run beside the loop. It reads their memory and does not stop them."""

from __future__ import annotations

import os
import sys
import time

from flota.host.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME = "py-spy"
LIMIT = 10.0  # seconds
AT_ONCE = 32
SIGKILL = 9


def find_spy(environ: Mapping[str, str]) -> str:
    """Beside the interpreter, where pip puts it, or on PATH; empty if it is nowhere."""
    directories = [os.path.dirname(sys.executable), *environ.get("PATH", "").split(os.pathsep)]
    paths = (f"{directory}/{NAME}" for directory in directories if directory)
    return next((path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path)), "")


def command(program: str, pid: int, *, native: bool) -> list[str]:
    """Native frames can be had only of a process that stands. Variables are compared and not kept: they may be
    secrets."""
    how = ["--native"] if native else ["--nonblocking", "--locals"]
    return [program, "dump", "--json", *how, "--pid", str(pid)]


class Spy:
    """One look at many processes at a time. `deadline`: when it gives up on those that have not answered."""

    def __init__(self, program: str, loop: Loop) -> None:
        self.program = program
        self.loop = loop
        self.deadline: float | None = None
        self._waiting: list[int] = []  # pids to look at
        self._running: dict[int, tuple[int, int, list[bytes]]] = {}  # by descriptor: whose, by which process, what
        self._found: dict[int, str] = {}
        self._then: Callable[[dict[int, str]], object] | None = None
        self._native = False

    @property
    def busy(self) -> bool:
        return self._then is not None

    def look(self, pids: list[int], then: Callable[[dict[int, str]], object], *, native: bool = False) -> None:
        """Call back with what it says of each of these."""
        assert not self.busy
        self._waiting, self._found, self._then, self._native = list(pids), {}, then, native
        self.deadline = time.monotonic() + LIMIT
        self._go_on()

    def on_time(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self.stop(then_call=True)

    def stop(self, *, then_call: bool = False) -> None:
        self._waiting = []
        for fd, (_, process, _) in list(self._running.items()):
            _kill(process)
            self._end(fd)
        if not then_call:
            self._then = self.deadline = None
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._running) < AT_ONCE:
            pid = self._waiting.pop(0)
            try:
                self._start(pid)
            except OSError:
                self._found[pid] = ""
        if not self._running and self._then:
            then, self._then, self.deadline = self._then, None, None
            then(self._found)

    def _start(self, pid: int) -> None:
        reader, writer = os.pipe()
        try:
            process = os.posix_spawn(
                self.program,
                command(self.program, pid, native=self._native),
                {},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_DUP2, writer, 2),
                ],
            )
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._running[reader] = pid, process, []
        self.loop.watch(reader, lambda: self._read(reader))

    def _read(self, fd: int) -> None:
        data = os.read(fd, 1 << 16)
        if data:
            self._running[fd][2].append(data)
            return
        self._end(fd)
        self._go_on()

    def _end(self, fd: int) -> None:
        pid, process, parts = self._running.pop(fd)
        self.loop.forget(fd)
        os.close(fd)
        text = b"".join(parts).decode(errors="replace")
        self._found[pid] = text[max(0, text.find("[\n")) :]  # warnings come before it
        try:
            os.waitpid(process, 0)
        except ChildProcessError:
            pass  # reaped with the strangers


def _kill(pid: int) -> None:
    try:
        os.kill(pid, SIGKILL)
    except OSError:
        pass
