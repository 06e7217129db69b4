"""The node's event loop: waits for file descriptors and runs their callbacks. It makes no decisions."""

from __future__ import annotations

import select
from _collections_abc import Callable
from time import monotonic

LONGEST = 24 * 3600  # seconds, which the kernel accepts; for a later deadline the caller waits again
LAST_TIME = 0.05  # seconds per turn for callbacks that run last
READABLE, WRITABLE = select.POLLIN, select.POLLOUT


class Loop:
    """File descriptors and their callbacks."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[Callable[[], object], int, bool]] = {}
        self.on_wake: Callable[[], object] = bool  # called in each turn, before the callbacks
        self._called = -1  # the descriptor whose callback ran last
        self._poll, self._unit = _make_poll()

    def watch(self, fd: int, callback: Callable[[], object], events: int = READABLE, *, last: bool = False) -> None:
        """Call back when `fd` is ready. Not for regular files, which are always ready: epoll rejects them.

        `last`: after all others, and for a limited time per turn. For descriptors that strangers can keep ready.
        """
        is_new = fd not in self._watched
        self._watched[fd] = callback, events, last
        try:
            (self._poll.register if is_new else self._poll.modify)(fd, events)
        except (FileNotFoundError, PermissionError):  # closed and reopened: the number now refers to another file
            self._start_over()

    def put_first(self, fd: int) -> None:
        """Undo `last`."""
        callback, events, _ = self._watched[fd]
        self._watched[fd] = callback, events, False

    def forget(self, fd: int) -> None:
        if self._watched.pop(fd, None):
            try:
                self._poll.unregister(fd)
            except OSError:
                self._start_over()

    def watches(self, fd: int) -> bool:
        return fd in self._watched

    def turn(self, seconds: float | None) -> None:
        """Wait up to `seconds`, or forever with None, and run the callbacks of all descriptors that are ready."""
        # poll and epoll round up to a millisecond: waking up early would cost another turn.
        timeout = None if seconds is None else max(0, min(seconds, LONGEST)) * self._unit
        # A callback may close a descriptor and open another with the same number, which need not be ready: call only
        # what was registered before.
        ready = [(fd, self._watched.get(fd)) for fd, _ in self._poll.poll(timeout)]
        began = monotonic()
        self.on_wake()
        last = []
        for fd, watched in ready:
            if watched and self._watched.get(fd) is watched:
                if watched[2]:
                    last.append((fd, watched))
                else:
                    watched[0]()
        if last:
            now = monotonic()
            self._call_until(now + max(LAST_TIME, now - began), last)

    def _call_until(self, end: float, ready: list[tuple[int, tuple[Callable[[], object], int, bool]]]) -> None:
        """Run callbacks until `end`. The next turn goes on after the last of them, so each descriptor has its turn."""
        ready.sort(key=lambda item: (item[0] <= self._called, item[0]))
        for fd, watched in ready:
            if self._watched.get(fd) is watched:
                self._called = fd
                watched[0]()
                if monotonic() >= end:
                    return

    def _start_over(self) -> None:
        """Register all descriptors again, after one was closed before `forget`.

        A forked process may keep that file open, and epoll would report it forever, under a number that is unused or
        refers to another file.
        """
        if isinstance(self._poll, select.epoll):
            self._poll.close()
        self._poll, self._unit = _make_poll()
        for fd, (_, events, _last) in self._watched.items():
            try:
                self._poll.register(fd, events)
            except OSError:
                pass  # closed as well; its owner will call `forget`


def _make_poll() -> tuple[select.epoll | select.poll, int]:
    """Return the poll object and its time units per second. epoll scales to thousands of descriptors."""
    return (select.epoll(), 1) if hasattr(select, "epoll") else (select.poll(), 1000)
