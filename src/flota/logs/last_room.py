"""Keeps room for the last output of workers: on a disk that becomes full, a traceback can still be written.

Space behind the end of each log is allocated in advance, and given back when the job has ended. Does nothing where the
system or the file system cannot do that.
"""

from __future__ import annotations

import os
from _ctypes import _SimpleCData

from flota import libc
from flota.files import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOM = 32 << 10  # bytes; a long traceback has 20 KiB
FIRST_CHECK, PERIOD = 1.0, 10.0  # seconds
FALLOC_FL_KEEP_SIZE = 1
STAT_BLOCK, DISK_BLOCK = 512, 4096


class Offset(_SimpleCData):  # type: ignore[type-arg]
    """An argument of 64 bits."""

    _type_ = "q"


class LastRoom:
    """For the logs of all rounds. `deadline`: when to check them next."""

    def __init__(self) -> None:
        self.deadline = 0.0
        self._paths: set[str] = set()

    def begin_round(self, paths: Iterable[str], now: float) -> None:
        self._paths.update(paths)
        self.deadline = now + FIRST_CHECK  # a short job needs none

    def on_time(self, now: float) -> None:
        """Allocate again what the logs have grown."""
        if now >= self.deadline:
            self.deadline = now + PERIOD
            for path in self._paths:
                _with_log(path, _allocate)

    def release(self) -> None:
        """Called when all workers have exited."""
        for path in self._paths:
            _with_log(path, give_back)


def room_of(info: os.stat_result) -> int:
    """How much can be appended to a file without new space. The file system may have allocated more than was asked."""
    return info.st_blocks * STAT_BLOCK - info.st_size


def give_back(log: int) -> None:
    """Release the space behind the end of an open log."""
    try:
        info = os.fstat(log)
        if room_of(info) >= DISK_BLOCK:
            os.ftruncate(log, info.st_size)
    except OSError:
        pass  # not a file that can be truncated, such as /dev/null


def _with_log(path: str, change: Callable[[int], None]) -> None:
    try:
        log = open_file(path, os.O_WRONLY)
    except OSError:
        return  # it was removed
    try:
        change(log)
    finally:
        os.close(log)


def _allocate(log: int) -> None:
    info = os.fstat(log)
    if room_of(info) < ROOM // 2:
        libc.call("fallocate", log, FALLOC_FL_KEEP_SIZE, Offset(info.st_size), Offset(ROOM))
