"""One host of a job that is started over ssh: the ssh process, its pipes, and what its host has answered."""

from __future__ import annotations

import os
import subprocess

from flota.engines.ssh_hosts import SshHost
from flota.engines.ssh_messages import MARK, HostAnswer
from flota.engines.tools import last_line
from flota.host.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

WAITING, SYNCING, CONNECTING, ASKED, READY, RUNNING, ENDED = range(7)
MOST_ERRORS = 1 << 16  # bytes of a host's stderr to keep
LOST = 255  # ssh's exit code if there is no connection


class HostSession:
    """`state` goes from WAITING to ENDED; a host with a problem ends early."""

    def __init__(self, number: int, host: SshHost, loop: Loop) -> None:
        self.number, self.host = number, host
        self.state = WAITING
        self.since = 0.0  # when the present process was started
        self.asked_at = self.answered_at = 0.0  # by the clock here
        self.problems: list[str] = []
        self.answer: HostAnswer | None = None
        self.pid = 0  # of a node that goes on without the launcher
        self.code: int | None = None
        self.errors = b""
        self.rest = b""  # an incomplete line
        self._loop = loop
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def answered(self) -> bool:
        return self.state >= READY or bool(self.problems)

    def start(self, argv: list[str], on_output: Callable[[bytes], None], on_errors: Callable[[bytes], None]) -> None:
        """Run ssh or rsync, in a session of its own: Ctrl-C of the terminal is for the launcher, which passes it on."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
        self.errors = self.rest = b""
        assert self._process.stdout
        assert self._process.stderr
        self._callbacks = ((self._process.stdout, on_output), (self._process.stderr, on_errors))
        for stream, _ in self._callbacks:
            os.set_blocking(stream.fileno(), False)
        self.listen(also=True)

    def listen(self, *, also: bool) -> None:
        """Read what the process writes. `also`: its stdout as well, which has to wait while the console is blocked."""
        for stream, callback in self._callbacks[0 if also else 1 :]:
            if not stream.closed and not self._loop.watches(stream.fileno()):
                self._loop.watch(stream.fileno(), lambda s=stream, c=callback: self._read(s, c))  # type: ignore[misc]
        output = self._callbacks[0][0]
        if not also and not output.closed:
            self._loop.forget(output.fileno())

    def _read(self, stream: IO[bytes], callback: Callable[[bytes], None]) -> bool:
        try:
            data = os.read(stream.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        if data:
            callback(data)
        else:
            self._loop.forget(stream.fileno())
            stream.close()
        return bool(data)

    def keep_errors(self, data: bytes) -> None:
        self.errors = (self.errors + data)[-MOST_ERRORS:]

    def write(self, data: bytes, *, wait: bool = False) -> None:
        """`wait`: until all is written. A host that reads nothing is lost after some seconds, without any help."""
        if self._process and self._process.stdin and not self._process.stdin.closed:
            fd = self._process.stdin.fileno()
            os.set_blocking(fd, wait)
            try:
                os.write(fd, data)
            except OSError:
                pass  # a full pipe; or it has ended, which `reap` finds

    def reap(self) -> bool:
        """Whether the process has exited. All that it has written is read before."""
        if self._process is None or self._process.poll() is None:
            return False
        for stream, callback in self._callbacks:
            # Not until the end of the file: a ControlMaster process in the background keeps its stderr open.
            while not stream.closed and self._read(stream, callback):
                pass
        self.code = self._process.returncode
        self.close()
        return True

    def close(self) -> None:
        """End the process, and with it the node: the end of its standard input stops it."""
        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream and not stream.closed:
                self._loop.forget(stream.fileno())
                stream.close()
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._process = None

    def lines(self, data: bytes) -> list[bytes]:
        """The complete lines so far."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        return lines

    def messages(self, data: bytes) -> list[bytes]:
        """The node's lines, without what a shell has printed at its start."""
        return [line[line.index(MARK) :] for line in self.lines(data) if MARK in line]

    def explain_end(self, python: str) -> str:
        """Why the process ended before the node answered."""
        said = self.errors.decode(errors="replace")
        last = last_line(said).removeprefix("ssh: ")
        if self.state == SYNCING:
            return f"cannot copy: {last}"
        if self.code == LOST:
            return f"cannot connect: {last or 'ssh gave no reason'}"
        if self.code in (126, 127):
            return f"no such interpreter: {python}"
        if "No module named 'flota'" in said:
            return f"{python} has no flota"
        if "No module named flota." in said or "No module named 'flota." in said:
            return f"{python} has another version of flota"
        return f"exit code {self.code}: {last}"
