"""Log rotation by size. A worker's descriptor cannot be moved to a new file, so its output goes through a pipe."""

from __future__ import annotations

import os
from _collections_abc import Callable

from flota.files import open_file
from flota.logs.directory import append, open_append, remove
from flota.logs.last_room import give_back

CHUNK = 64 << 10
APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class RotatingLog:
    """Copies one pipe to a file, and starts a new file at the end of a line when the file has reached `max_size`."""

    def __init__(self, path: str, max_size: int, backups: int) -> None:
        self.path = path
        self.max_size = max_size
        self.backups = backups
        self.rotated = False
        self.on_rotated: Callable[[str], None] = lambda _path: None
        self.on_error: Callable[[str], None] = lambda _text: None
        self._failed = False
        self.fd, self.writer = os.pipe()
        self._use(open_append(path))

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

    def _use(self, log: int) -> None:
        self._file = log
        self._size = os.fstat(log).st_size
        self._at_line_end = True

    def _write(self, data: bytes) -> None:
        if data and append(self._file, data):
            self._size += len(data)
            self._at_line_end = data.endswith(b"\n")

    def _rotate(self) -> None:
        try:
            log = self._new_file()
        except OSError as error:
            # As without inodes, or in a directory that was removed. Try again when the file has grown as much again.
            self._size = 0
            if not self._failed:
                self.on_error(f"cannot rotate {self.path}: {error.strerror}; continuing in the file that is open")
            self._failed = True
            return
        give_back(self._file)
        os.close(self._file)
        self._use(log)
        self.rotated = True
        self.on_rotated(self.path)

    def _new_file(self) -> int:
        """Open a new file before the others are renamed: if that fails, nothing has changed."""
        if not self._is_in_place():
            return open_file(self.path, APPENDED)
        path = f"{self.path}.new"
        log = open_file(path, APPENDED)
        try:
            self._rename()
            os.replace(path, self.path)
        except OSError:
            os.close(log)
            remove(path)
            raise
        return log

    def _is_in_place(self) -> bool:
        """Whether the open file still has its name. The user may have moved or removed it."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except OSError:
            return False

    def _rename(self) -> None:
        names = [self.path, *(f"{self.path}.{number}" for number in range(1, self.backups + 1))]
        free = next((at for at, name in enumerate(names) if not os.path.lexists(name)), self.backups)
        for at in range(free, 0, -1):
            os.replace(names[at - 1], names[at])
