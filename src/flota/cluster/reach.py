"""Checks whether this node can reach the next node of the round: otherwise workers wait for minutes, in silence.

The node connects to a port that the next one holds for a worker. No process listens there yet, so its kernel refuses
the connection, which is an answer. A firewall that drops packets, or a wrong address, gives none.
"""

from __future__ import annotations

from _socket import AF_INET, AF_INET6, SO_ERROR, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, inet_pton, socket
from collections.abc import Callable
from errno import ECONNREFUSED, EINPROGRESS

from flota.host.loop import WRITABLE, Loop
from flota.job.roster import Seat, endpoint

PATIENCE = 4.0  # seconds: the kernel repeats a lost request after 1 and 3 s


class ReachCheck:
    """`deadline`: when to give up. `on_failure` gets the host and its address."""

    def __init__(self, loop: Loop, on_failure: Callable[[str], object]) -> None:
        self.deadline: float | None = None
        self._loop = loop
        self._on_failure = on_failure
        self._socket: socket | None = None
        self._where = ""

    def begin(self, seats: tuple[Seat, ...], own: int, now: float) -> None:
        self.close()
        to, port = seats[(own + 1) % len(seats)], int(seats[(own + 1) % len(seats)].ports.workers[-1])
        family = AF_INET6 if ":" in to.address else AF_INET
        if to.address == seats[own].address or not _is_numeric(family, to.address):
            return  # this machine, or a name: a lookup would block
        self._where = f"{to.host} at {endpoint(to.address, str(port))}"
        self._socket = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)
        code = self._socket.connect_ex((to.address, port))
        if code == EINPROGRESS:
            self.deadline = now + PATIENCE
            self._loop.watch(self._socket.fileno(), self._on_answer, WRITABLE)
        else:
            self._end(code)

    def _on_answer(self) -> None:
        assert self._socket is not None
        self._end(self._socket.getsockopt(SOL_SOCKET, SO_ERROR))

    def on_time(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self._end(EINPROGRESS)

    def _end(self, code: int) -> None:
        self.close()
        if code not in (0, ECONNREFUSED):
            self._on_failure(self._where)

    def close(self) -> None:
        self.deadline = None
        if self._socket:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None


def _is_numeric(family: int, address: str) -> bool:
    try:
        return bool(inet_pton(family, address))
    except OSError:
        return False
