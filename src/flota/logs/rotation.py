"""Log rotation by size. A worker's descriptor cannot be moved to a new file, so its output goes through a pipe."""

from __future__ import annotations

import os
from _collections_abc import Callable

from flota.logs.directory import append, open_append

CHUNK = 64 << 10


class RotatingLog:
    """Copies one pipe to a file, and starts a new file at the end of a line when the file has reached `max_size`."""

    def __init__(self, path: str, max_size: int, backups: int) -> None:
        self.path = path
        self.max_size = max_size
        self.backups = backups
        self.rotated = False
        self.on_rotated: Callable[[str], None] = lambda _path: None
        self.fd, self.writer = os.pipe()
        self._file = self._open()

    def on_ready(self) -> bool:
        """Copy what is in the pipe. Returns False when all writers have closed it."""
        data = os.read(self.fd, CHUNK)
        if not data:
            os.close(self._file)
            os.close(self.fd)
            return False
        while data:
            head, data = self._fitting(data)
            self._write(head)
            if data:
                self._rotate()
        return True

    def _fitting(self, data: bytes) -> tuple[bytes, bytes]:
        """Split data for this file and the next one. Lines stay whole, also a line longer than the limit."""
        room = self.max_size - self._size
        if len(data) <= room:
            return data, b""
        cut = data.rfind(b"\n", 0, max(room, 0)) + 1
        if not cut and self._size and self._at_line_end:
            return b"", data
        cut = cut or data.find(b"\n") + 1 or len(data)
        return data[:cut], data[cut:]

    def _rename(self) -> None:
        for number in range(self.backups, 0, -1):
            older = self.path if number == 1 else f"{self.path}.{number - 1}"
            if number == 1 or os.path.exists(older):
                os.replace(older, f"{self.path}.{number}")
        if self.backups == 0:
            os.unlink(self.path)

    def _open(self) -> int:
        log = open_append(self.path)
        self._size = os.fstat(log).st_size
        self._at_line_end = True
        return log

    def _write(self, data: bytes) -> None:
        if data and append(self._file, data):
            self._size += len(data)
            self._at_line_end = data.endswith(b"\n")

    def _rotate(self) -> None:
        try:
            self._rename()
        except OSError:
            self._size = 0  # the directory was removed or the disk is full: continue in the open file
            return
        os.close(self._file)
        self._file = self._open()
        self.rotated = True
        self.on_rotated(self.path)
