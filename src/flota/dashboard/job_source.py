"""What the page's server asks of a job, running or finished."""

from __future__ import annotations

from typing import Any, Protocol

from flota.dashboard.metrics import JobCounters
from flota.job.roles import TRAINER
from flota.logs.log_parts import parts_of, read_part

Json = dict[str, Any]

LOG_PART = 256 << 10  # bytes of a log in one answer
ALL_TAILS, LEAST_TAIL = 4 << 20, 2 << 10  # bytes of all logs together, and at least of each


class NotThere(Exception):
    """What was asked for does not exist, or cannot be done now. Its text is for people."""


def tail_size(ranks: int) -> int:
    return max(LEAST_TAIL, min(LOG_PART, ALL_TAILS // max(1, ranks)))


def read_from(path: str, offset: int, most: int) -> tuple[int, bytes]:
    """At most so many bytes of the newest file of a log, and the offset at which they begin. A negative offset counts
    from the end. Raises NotThere."""
    parts = parts_of(path)
    if not parts:
        raise NotThere(f"{path} does not exist, or cannot be read")
    inode, size = parts[-1]
    begins = max(0, size + offset) if offset < 0 else min(offset, size)
    return begins, read_part(path, inode, begins, most)


def rank_name(role: str, rank: int) -> str:
    return str(rank) if role == TRAINER else f"{role} {rank}"


class JobSource(Protocol):
    def wait(self, known: int, seconds: float) -> tuple[int, bytes]:
        """The newest snapshot as JSON, and its number: at once if it is not `known`, else when there is another one or
        the time is over."""

    def newest(self) -> Json:
        """A snapshot that is not older than a second or two."""

    def counters(self) -> JobCounters:
        """Restarts, and nodes that joined and were lost."""

    def curves(self) -> Json: ...

    def timeline(self) -> Json: ...

    def log_part(self, role: str, rank: int, file: int, offset: int) -> tuple[int, bytes]:
        """A part of one of a rank's logs, and the offset at which it begins. A negative offset counts from the end."""

    def tails(self) -> list[tuple[str, bytes]]:
        """The ends of the logs of all ranks, each with the rank's name."""

    def stacks(self) -> list[str]:
        """What each rank is waiting on, in words."""

    def act(self, verb: str, seat: int) -> str:
        """Stop or restart the job, or let the node with this seat leave. Returns what happens, in words."""
