"""The node's one loop: waits for descriptors and calls whoever wanted to know. Decides nothing."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 24 * 3600 * 1000  # a wait that poll can take; whoever has a later deadline is asked again
READABLE, WRITABLE = select.POLLIN, select.POLLOUT


class Loop:
    """File descriptors with their callbacks, in one wait."""

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
        timeout = None if seconds is None else min(int(seconds * 1000) + 1 if seconds else 0, LONGEST)
        # An earlier callback of this turn may close a descriptor and open another of the same number: what was ready
        # then says nothing about the new one.
        ready = [(fd, self._callbacks.get(fd)) for fd, _ in self._poll.poll(timeout)]
        for fd, callback in ready:
            if callback and self._callbacks.get(fd) is callback:
                callback()
