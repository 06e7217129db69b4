"""The node's one loop: waits for descriptors and signals, and calls whoever wanted to know. Decides nothing."""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

READABLE, WRITABLE = select.POLLIN, select.POLLOUT


class Loop:
    """File descriptors with their callbacks, and signals that arrived, in one wait."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], object]] = {}

    def watch(self, fd: int, callback: Callable[[], object], events: int = READABLE) -> None:
        self._callbacks[fd] = callback
        self._poll.register(fd, events)

    def forget(self, fd: int) -> None:
        if self._callbacks.pop(fd, None):
            self._poll.unregister(fd)

    def watches(self, fd: int) -> bool:
        return fd in self._callbacks

    def turn(self, seconds: float | None) -> None:
        """Wait so long at the most, for ever with None, and call back for all that is ready."""
        # Rounded up: a millisecond early would mean another, useless, turn.
        timeout = None if seconds is None else max(0, int(seconds * 1000) + 1 if seconds else 0)
        for fd, _ in self._poll.poll(timeout):
            callback = self._callbacks.get(fd)
            if callback:
                callback()


class Signals:
    """Signals as bytes on a pipe, read by the loop. Those ignored when flota started (nohup) stay ignored."""

    def __init__(self, names: Iterable[str]) -> None:
        self.fd, self._end = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._end, False)
        signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        for name in names:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _nothing)

    def read(self) -> list[int]:
        """The signals that arrived, each once a delivery."""
        return list(os.read(self.fd, 4096))


def forget_wakeup() -> None:
    """In a fork: the wake-up pipe is the node's, and must not be written to by anybody else."""
    signal.set_wakeup_fd(-1)


def suspend_self() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _nothing(*_: object) -> None:
    """The byte on the pipe is all that is wanted."""
