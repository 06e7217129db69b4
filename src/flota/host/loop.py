"""The node's one event loop: waits for file descriptors and runs their callbacks. Decides nothing."""

from __future__ import annotations

import select
from _collections_abc import Callable

LONGEST = 24 * 3600  # seconds: a wait that the kernel accepts; after it, later deadlines are asked for again
READABLE, WRITABLE = select.POLLIN, select.POLLOUT


class Loop:
    """File descriptors with their callbacks, in one wait."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[Callable[[], object], int]] = {}
        self._poll, self._unit = _make_poll()

    def watch(self, fd: int, callback: Callable[[], object], events: int = READABLE) -> None:
        """Not for files, which are always ready: epoll refuses them."""
        is_new = fd not in self._watched
        self._watched[fd] = callback, events
        try:
            (self._poll.register if is_new else self._poll.modify)(fd, events)
        except (FileNotFoundError, PermissionError):  # closed and reopened: the number belongs to another file
            self._start_over()

    def forget(self, fd: int) -> None:
        if self._watched.pop(fd, None):
            try:
                self._poll.unregister(fd)
            except OSError:
                self._start_over()

    def watches(self, fd: int) -> bool:
        return fd in self._watched

    def turn(self, seconds: float | None) -> None:
        """Wait at most so long, for ever with None, and run the callbacks of all descriptors that are ready."""
        # Both kinds round up to a millisecond: one early would mean another, useless, turn.
        timeout = None if seconds is None else max(0, min(seconds, LONGEST)) * self._unit
        # An earlier callback of this turn may close a descriptor and open another of the same number: what was ready
        # then says nothing about the new one.
        ready = [(fd, self._watched.get(fd)) for fd, _ in self._poll.poll(timeout)]
        for fd, watched in ready:
            if watched and self._watched.get(fd) is watched:
                watched[0]()

    def _start_over(self) -> None:
        """After a descriptor was closed before it was forgotten: a forked process may keep that file open, and epoll
        would report it for ever, under a number that is unused or belongs to another file."""
        if isinstance(self._poll, select.epoll):
            self._poll.close()
        self._poll, self._unit = _make_poll()
        for fd, (_, events) in self._watched.items():
            try:
                self._poll.register(fd, events)
            except OSError:
                pass  # closed as well; its owner will forget it


def _make_poll() -> tuple[select.epoll | select.poll, int]:
    """The poll object, and its time units per second; epoll costs the same for thousands of descriptors as for ten."""
    return (select.epoll(), 1) if hasattr(select, "epoll") else (select.poll(), 1000)
