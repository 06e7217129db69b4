"""Reads a worker's log, or an events file, from an offset on, in parts that a connection can take."""

from __future__ import annotations

import os

from flota.files import open_file

CHUNK = 256 << 10
POLL_INTERVAL = 0.2  # seconds between looks at a file that is followed


class LogStream:
    """`offset`: bytes from the beginning; negative: from the end. Without `follow` it ends with the file's present end.

    A file that was replaced (rotated) or truncated goes on at the beginning of the new one.
    """

    def __init__(self, path: str, offset: int, *, follow: bool) -> None:
        self._path = path
        self._file = open_file(path, os.O_RDONLY)
        size = os.fstat(self._file).st_size
        self.position = max(0, size + offset) if offset < 0 else min(offset, size)
        self._follow = follow
        self._end = size
        self.ended = False

    def read(self) -> bytes:
        """The next bytes. Nothing: there are none now, or no more at all if it has `ended`."""
        data = os.pread(self._file, CHUNK if self._follow else min(CHUNK, self._end - self.position), self.position)
        self.position += len(data)
        if not data:
            if self._follow:
                self._check_replaced()
            else:
                self.ended = True
        return data

    def finish(self) -> None:
        """Read to the file's present end, and no further."""
        self._follow, self._end = False, max(self.position, os.fstat(self._file).st_size)

    def _check_replaced(self) -> None:
        try:
            replaced = not os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except OSError:
            return  # removed; it may come back
        if replaced:
            try:
                following = open_file(self._path, os.O_RDONLY)
            except OSError:
                return
            os.close(self._file)
            self._file, self.position = following, 0
        elif os.fstat(self._file).st_size < self.position:
            self.position = 0

    def close(self) -> None:
        os.close(self._file)
