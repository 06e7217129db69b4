"""Reads a part of a file in a log directory."""

from __future__ import annotations

import os

from flota.files import open_file


def read_part(path: str, offset: int, most: int) -> tuple[int, bytes]:
    """At most so many bytes, and the offset at which they begin. A negative offset counts from the end."""
    file = open_file(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        begins = max(0, size + offset) if offset < 0 else min(offset, size)
        return begins, os.pread(file, most, begins)
    finally:
        os.close(file)
