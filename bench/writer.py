"""The program whose output is measured: numbered lines, written faster than any training writes."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import environments
from bench.harness import WORKERS, directory

WRITERS = 2
LINES = 2_000_000  # per writer
LINE_LENGTH = 100
MEGABYTES = WRITERS * LINES * LINE_LENGTH / 1e6


class Writer(NamedTuple):
    """The arguments for a launcher, and the command without one."""

    launched: tuple[str, ...]
    plain: str


@contextmanager
def built_writer() -> Iterator[Writer]:
    """The compiled program, or a Python script if there is no C compiler."""
    compiler = shutil.which("cc")
    if not compiler:
        script = str(WORKERS / "write_lines.py")
        yield Writer((script, str(LINES)), shlex.join([str(environments.PYTHON), script, str(LINES)]))
        return
    with directory() as here:
        program = str(here / "write_lines")
        subprocess.run([compiler, "-O2", "-o", program, str(WORKERS / "write_lines.c")], check=True)
        yield Writer(("--no-python", program, str(LINES)), shlex.join([program, str(LINES)]))


def shell(one_writer: str) -> list[str]:
    """The writers, started by a shell; `one_writer` is the command of each, with its number in `$RANK`."""
    return ["sh", "-c", " ".join(f"(export RANK={rank}; {one_writer}) &" for rank in range(WRITERS)) + " wait"]


class Checker:
    """Checks the console output: every line of every writer must be complete and in order."""

    def __init__(self) -> None:
        self.seen = [0] * WRITERS
        self.wrong = 0

    def read(self, line: bytes) -> None:
        body = line[-LINE_LENGTH:]  # after the launcher's prefix
        rank = int(body[:1])
        self.wrong += int(body[2:12]) != self.seen[rank]
        self.seen[rank] += 1

    @property
    def lost(self) -> int:
        return WRITERS * LINES - sum(self.seen)


def rate(seconds: float) -> float:
    """Megabytes of the writers' own output per second of the whole command."""
    return MEGABYTES / seconds


def log_size(log: Path) -> int:
    return sum(file.stat().st_size for file in log.rglob("*") if file.is_file())
