"""The node's one loop: waits for descriptors and calls whoever wanted to know. Decides nothing."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 24 * 3600  # seconds: a wait that the kernel can take; whoever has a later deadline is asked again
READABLE, WRITABLE = select.POLLIN, select.POLLOUT


class Loop:
    """File descriptors with their callbacks, in one wait."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[Callable[[], object], int]] = {}
        self._always_ready: set[int] = set()
        self._poll, self._unit = _make_poll()

    def watch(self, fd: int, callback: Callable[[], object], events: int = READABLE) -> None:
        if fd not in self._watched or fd in self._always_ready:
            self._register(fd, events)
            self._watched[fd] = callback, events
            return
        self._watched[fd] = callback, events
        try:
            self._poll.modify(fd, events)
        except (FileNotFoundError, PermissionError):  # closed and opened anew: the number is another file's
            self._start_over()

    def forget(self, fd: int) -> None:
        if not self._watched.pop(fd, None):
            return
        if fd in self._always_ready:
            self._always_ready.remove(fd)
            return
        try:
            self._poll.unregister(fd)
        except OSError:
            self._start_over()

    def watches(self, fd: int) -> bool:
        return fd in self._watched

    def turn(self, seconds: float | None) -> None:
        """Wait so long at the most, for ever with None, and call back for all that is ready."""
        if self._always_ready:
            seconds = 0
        # Both kinds round up to a millisecond: one early would mean another, useless, turn.
        timeout = None if seconds is None else max(0, min(seconds, LONGEST)) * self._unit
        numbers = [*self._always_ready, *(fd for fd, _ in self._poll.poll(timeout))]
        # An earlier callback of this turn may close a descriptor and open another of the same number: what was ready
        # then says nothing about the new one.
        ready = [(fd, self._watched.get(fd)) for fd in numbers]
        for fd, watched in ready:
            if watched and self._watched.get(fd) is watched:
                watched[0]()

    def _register(self, fd: int, events: int) -> None:
        self._always_ready.discard(fd)
        try:
            self._poll.register(fd, events)
        except PermissionError:
            self._always_ready.add(fd)  # a file or /dev/null: epoll refuses what never makes anybody wait

    def _start_over(self) -> None:
        """After a descriptor was closed before it was forgotten: a forked process may keep that file open, and epoll
        would tell of it for ever, under a number that is nobody's or another's."""
        if isinstance(self._poll, select.epoll):
            self._poll.close()
        self._poll, self._unit = _make_poll()
        for fd, (_, events) in self._watched.items():
            try:
                self._register(fd, events)
            except OSError:
                pass  # closed as well; whoever did it will forget it


def _make_poll() -> tuple[select.epoll | select.poll, int]:
    """What waits, and its units in a second: epoll costs the same for thousands of descriptors as for ten."""
    return (select.epoll(), 1) if hasattr(select, "epoll") else (select.poll(), 1000)
