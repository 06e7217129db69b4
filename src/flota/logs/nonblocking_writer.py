"""Output that never blocks: bytes that the terminal, pipe or file does not take now are written later."""

from __future__ import annotations

import fcntl
import os
import select
import stat
from _collections_abc import Callable
from _socket import MSG_DONTWAIT, socket

F_SETPIPE_SZ = 1031
PIPE_SIZE = 1 << 20
ATOMIC = 4096  # a pipe that is ready takes this much without blocking
MOST_PARTS = 1000  # of one writev()


class NonblockingWriter:
    """Writes to a descriptor. While output is `pending`, the console reads no logs, so memory use is bounded."""

    def __init__(self, fd: int) -> None:
        self.closed = False
        self.at_line_start = True
        self.before_write: Callable[[], None] | None = None
        self._rest: list[memoryview] = []
        self._socket: socket | None = None
        self._poll: select.poll | None = None  # only where writing could block
        self.fd = self._open(fd)

    @property
    def pending(self) -> bool:
        return bool(self._rest)

    def write(self, *chunks: bytes | memoryview) -> None:
        parts = [memoryview(chunk) for chunk in chunks if chunk]
        if self.closed or not parts:
            return
        if self.before_write:
            self.before_write()
        self._rest += parts
        self.at_line_start = parts[-1][-1] == 10
        self.flush()

    def flush(self) -> None:
        """Write as much as the descriptor takes without blocking."""
        try:
            while self._rest:
                self._drop(self._send())
        except BlockingIOError:
            pass
        except OSError:
            # The reader has exited (`| head`). The job continues without a console.
            self.closed = True
            self._rest.clear()

    def _send(self) -> int:
        if self._socket:
            return self._socket.send(self._rest[0], MSG_DONTWAIT)
        if self._poll:
            if not self._poll.poll(0):
                raise BlockingIOError
            return os.write(self.fd, self._rest[0][:ATOMIC])
        return os.writev(self.fd, self._rest[:MOST_PARTS])

    def _drop(self, sent: int) -> None:
        while sent:
            first = self._rest[0]
            if sent < len(first):
                self._rest[0] = first[sent:]
                return
            sent -= len(first)
            del self._rest[0]

    def _open(self, fd: int) -> int:
        """Open our own descriptor where a write could block: O_NONBLOCK is shared by all users of the given one."""
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            self.closed = True
            return fd
        if stat.S_ISSOCK(mode):
            self._socket = socket(fileno=os.dup(fd))
            return fd
        if not (stat.S_ISFIFO(mode) or os.isatty(fd)):
            return fd
        try:
            own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            self._poll = select.poll()  # another user's terminal: poll before each small write
            self._poll.register(fd, select.POLLOUT)
            return fd
        if stat.S_ISFIFO(mode):
            try:
                fcntl.fcntl(own, F_SETPIPE_SZ, PIPE_SIZE)  # fewer switches between us and the reader
            except OSError:
                pass
        return own
