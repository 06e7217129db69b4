"""What a worker imports, told to the node: the next interpreters are to have imported it before they are needed.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import os
import sys
import time

from flota.host.channel import MODULE_LIST_SIZE


def record(channel: str) -> None:
    """From now on, into this channel, if its first place is this worker's: all import the same."""
    path, _, place = channel.rpartition(":")
    if path and place == "0":
        sys.meta_path.insert(0, Recorder(path, MODULE_LIST_SIZE))


class Recorder:
    """Asked first for every module, it finds none; but it writes the name down, where the node can read it."""

    SOON = 120.0  # seconds after a start in which a script has imported what it imports

    def __init__(self, path: str, length: int) -> None:
        from mmap import mmap

        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._memory = mmap(fd, 0)
        finally:
            os.close(fd)
        self._start = len(self._memory) - length
        self._end = self._start
        self._until = time.monotonic() + self.SOON

    def find_spec(self, name: str, *_: object) -> None:
        line = f"{name}\n".encode()
        # It stays where it is: whoever looks through the list of finders would miss one when it shrinks.
        if time.monotonic() < self._until and self._end + len(line) < len(self._memory):
            self._memory[self._end : self._end + len(line)] = line
            self._end += len(line)
