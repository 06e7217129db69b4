"""Records which modules a worker imports, in the channel: interpreters that are parked later import them in advance."""

from __future__ import annotations

from flota.host.channel import MODULE_LIST_SIZE


def record_imports(channel: str) -> None:
    """Record what this worker imports from now on.

    Only the worker of the channel's first page records: all workers import the same modules.
    """
    import sys

    path, _, page = channel.rpartition(":")
    if path and page == "0":
        sys.meta_path.insert(0, ImportRecorder(path))


class ImportRecorder:
    """The first finder on `sys.meta_path`. It finds no module, but writes each name to the channel."""

    def __init__(self, path: str) -> None:
        from mmap import mmap

        with open(path, "r+b", buffering=0) as file:
            self._memory = mmap(file.fileno(), 0)
        self._end = len(self._memory) - MODULE_LIST_SIZE

    def find_spec(self, name: str, *_: object) -> None:
        line = f"{name}\n".encode()
        # The finder is never removed: code that iterates over `sys.meta_path` would skip an entry.
        if self._end + len(line) < len(self._memory):
            self._memory[self._end : self._end + len(line)] = line
            self._end += len(line)
