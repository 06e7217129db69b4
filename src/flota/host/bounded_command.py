"""Runs one command beside the workers: with input and a time limit, and so that no process of it is left.

A shepherd of its own is its parent. It kills what the command has started when the command exits, when the time is
over, and when this process dies.
"""

from __future__ import annotations

import os
import time
from _collections_abc import Callable

from flota.host.kill_tree import descendants_of, has_own_proc, kill
from flota.host.loop import Loop
from flota.host.process_start import SIGCONT, ProcessSpec
from flota.host.shepherd import fork_shepherd, write_line
from flota.values import NamedTuple

MOST_OUTPUT = 16 << 10  # bytes that are read; a command that writes more is blocked until it is killed
KILL_PATIENCE = 2.0  # seconds for the shepherd to kill the command


class CommandEnd(NamedTuple):
    """`code`: the exit code, or -N for signal N; None if it was killed because the time was over, or was not started.
    `output`: the beginning of what it wrote to stdout and stderr."""

    code: int | None
    output: bytes


class BoundedCommand:
    """A command that is running. `then` is called when nothing of it is left. Call `on_time` at the `deadline`."""

    def __init__(
        self,
        argv: tuple[str, ...],
        env: dict[str, str],
        text: bytes,
        seconds: float,
        loop: Loop,
        then: Callable[[CommandEnd], object],
    ) -> None:
        """Raises OSError if it cannot be started."""
        if not hasattr(os, "memfd_create") or (os.getpid() == 1 and not has_own_proc()):
            # Without /proc, a shepherd below process 1 ends its part by killing all processes.
            raise OSError(0, "this system lacks memfd_create() or /proc")
        self.deadline = time.monotonic() + seconds
        self._loop, self._then = loop, then
        self._code: int | None = None
        self._output = b""
        self._ending = False
        stdin = os.memfd_create("flota", os.MFD_CLOEXEC)  # a pipe could be full before the command reads it
        os.write(stdin, text)
        os.lseek(stdin, 0, os.SEEK_SET)
        self._out, out = os.pipe()
        try:
            process = ProcessSpec(argv, env, out, out, stdin=stdin)
            self._shepherd, self._commands, self._reports = fork_shepherd([process], own_session=True, close_fds=True)
        except OSError:
            os.close(self._out)
            raise
        finally:
            os.close(stdin)
            os.close(out)
        os.set_blocking(self._out, False)
        loop.watch(self._reports, self._on_report)
        loop.watch(self._out, self._on_output)

    def on_time(self, now: float) -> None:
        if now < self.deadline:
            return
        self.deadline = now + KILL_PATIENCE
        if not self._ending:
            self._end()
        else:  # the shepherd is stopped or blocked
            for pid in (*descendants_of(self._shepherd), self._shepherd):
                kill(pid)

    def _on_report(self) -> None:
        data = os.read(self._reports, 4096)
        if not data:
            self._close()
            return
        for line in data.decode().splitlines():
            report, *numbers = line.split()
            if report == "exited" and not self._ending:
                self._code = int(numbers[1])
            if report != "started":
                self._end()

    def _end(self) -> None:
        """Have the shepherd kill what is left of the command."""
        self._ending = True
        self.deadline = time.monotonic() + KILL_PATIENCE
        write_line(self._commands, "end 0 0")
        kill(self._shepherd, SIGCONT)

    def _on_output(self) -> None:
        try:
            data = os.read(self._out, MOST_OUTPUT - len(self._output))
        except BlockingIOError:
            return
        self._output += data
        if not data or len(self._output) >= MOST_OUTPUT:
            self._loop.forget(self._out)

    def _close(self) -> None:
        if self._loop.watches(self._out):
            self._on_output()
            self._loop.forget(self._out)
        self._loop.forget(self._reports)
        for fd in (self._out, self._reports, self._commands):
            os.close(fd)
        try:
            os.waitpid(self._shepherd, 0)
        except ChildProcessError:
            pass  # reaped as an orphan
        self._then(CommandEnd(self._code, self._output))
