"""flota's own messages: to stderr, and to <job_id>.<node>.log."""

from __future__ import annotations

import time

from flota.logs.directory import append, open_append
from flota.logs.nonblocking_writer import NonblockingWriter

LEVELS = {"NOTSET": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
RED, YELLOW, PLAIN = "\033[31m", "\033[33m", "\033[0m"
COLOURS = {"WARNING": YELLOW, "ERROR": RED}


class OwnLog:
    """Writes messages at or above the level; the file gets the same, without colour."""

    def __init__(self, path: str, writer: NonblockingWriter, level: str, *, colour: bool) -> None:
        self.writer = writer
        self._lowest = LEVELS[level]
        self._colour = colour
        self._file = open_append(path)

    def write_line(self, level: str, text: str) -> None:
        """One sentence, after its level and the time."""
        now = time.time()
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        self.write_text(level, f"{level} {clock},{int(now * 1000) % 1000:03d} flota] {text}")

    def write_text(self, level: str, text: str) -> None:
        """Text as it is."""
        if LEVELS[level] < self._lowest:
            return
        append(self._file, f"{text}\n".encode(errors="surrogateescape"))
        paint = COLOURS.get(level) if self._colour else None
        if paint:
            first, newline, rest = text.partition("\n")
            text = f"{paint}{first}{PLAIN}{newline}{rest}"
        self.writer.write(f"{text}\n".encode(errors="surrogateescape"))
