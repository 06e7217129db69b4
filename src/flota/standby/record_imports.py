"""Records what a worker imports, for the node: interpreters that are parked later import it in advance.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import sys

from flota.host.channel import MODULE_LIST_SIZE


def record_imports(channel: str) -> None:
    """From now on, if the channel's first page is this worker's: one record is enough, all workers import the same."""
    path, _, page = channel.rpartition(":")
    if path and page == "0":
        sys.meta_path.insert(0, ImportRecorder(path, MODULE_LIST_SIZE))


class ImportRecorder:
    """A finder that is asked first for every module. It finds none, but writes the name into the channel."""

    def __init__(self, path: str, length: int) -> None:
        from mmap import mmap

        with open(path, "r+b", buffering=0) as file:
            self._memory = mmap(file.fileno(), 0)
        self._end = len(self._memory) - length

    def find_spec(self, name: str, *_: object) -> None:
        line = f"{name}\n".encode()
        # It is never removed: code that iterates over the list of finders would skip one when the list shrinks.
        if self._end + len(line) < len(self._memory):
            self._memory[self._end : self._end + len(line)] = line
            self._end += len(line)
