"""Linux's inotify: which files have changed. Where there is none, the caller has to poll."""

from __future__ import annotations

import os

from flota import libc

IN_MODIFY = 0x2
EVENT_SIZE = 16
OVERFLOWED = -1
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
KEEP_UP_TO = 64 << 20


class Inotify:
    """`fd` becomes readable when a watched file has changed; it is -1 where the system has no inotify."""

    def __init__(self) -> None:
        self.fd = libc.call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self, path: str) -> int:
        """A number that `read` returns when this file has changed; negative when the system has no watch left."""
        return libc.call("inotify_add_watch", self.fd, os.fsencode(path), IN_MODIFY)

    def forget(self, number: int) -> None:
        libc.call("inotify_rm_watch", self.fd, number)

    def read(self) -> list[int]:
        data = os.read(self.fd, 256 * EVENT_SIZE)
        return [int.from_bytes(data[at : at + 4], "little", signed=True) for at in range(0, len(data), EVENT_SIZE)]


def keep_freed_memory() -> None:
    """Large buffers come and go at console speed: without this each of them is mapped and faulted in again."""
    libc.call("mallopt", M_MMAP_THRESHOLD, KEEP_UP_TO)
    libc.call("mallopt", M_TRIM_THRESHOLD, KEEP_UP_TO)
