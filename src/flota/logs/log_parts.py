"""The files of one log: the current one and, after a rotation, older ones. Their names change, their inodes do not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

from flota.files import open_file
from flota.values import NamedTuple

MOST_READ = 256 << 10  # bytes at once
MOST_OPEN = 128  # files


class LogPart(NamedTuple):
    inode: int
    size: int


def parts_of(path: str) -> tuple[LogPart, ...]:
    """The oldest first. Those that a rotation moves at this moment are found under one of their two names."""
    found: dict[int, LogPart] = {}
    for name in _names(path):
        try:
            info = os.stat(name)
        except OSError:
            continue
        found.setdefault(info.st_ino, LogPart(info.st_ino, info.st_size))
    return tuple(reversed(found.values()))


def read_part(path: str, inode: int, offset: int, limit: int = MOST_READ) -> bytes:
    """Bytes of one file of a log; nothing behind its end, or if it was rotated away."""
    file = _open_part(path, inode)
    if file is None:
        return b""
    try:
        return os.pread(file, limit, offset)
    finally:
        os.close(file)


def read_from(path: str, offset: int, most: int) -> tuple[int, bytes]:
    """Bytes of the current file, and the offset at which they begin: its end if `offset` is behind it. A negative
    offset counts from the end."""
    file = open_file(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        begins = max(0, size + offset) if offset < 0 else min(offset, size)
        return begins, os.pread(file, most, begins)
    finally:
        os.close(file)


def _open_part(path: str, inode: int) -> int | None:
    for name in chain(_names(path), (path,)):  # again at the end: a rotation may have moved it in between
        try:
            file = open_file(name, os.O_RDONLY)
        except OSError:
            continue
        if os.fstat(file).st_ino == inode:
            return file
        os.close(file)
    return None


class PartReader:
    """Reads parts of many logs in turn, and keeps their files open: most time of a short read is that of opening."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, int], int] = {}

    def read(self, path: str, inode: int, offset: int, limit: int) -> bytes:
        file = self._files.get((path, inode))
        if file is None:
            if len(self._files) >= MOST_OPEN:
                os.close(self._files.pop(next(iter(self._files))))
            file = _open_part(path, inode)
            if file is None:
                return b""
            self._files[path, inode] = file
        return os.pread(file, limit, offset)


def _names(path: str) -> Iterator[str]:
    """The names of its files, the newest first. While files are renamed, one name at a time is missing."""
    yield path
    number = missing = 0
    while missing < 2:
        number += 1
        name = f"{path}.{number}"
        missing = 0 if os.path.lexists(name) else missing + 1
        if not missing:
            yield name
