"""What a parked interpreter may take, and what it does.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import resource

_given: list[tuple[int, int]] = []  # the limit of memory before it was lowered


def limit_open_files(limits: list[int] | None) -> None:
    """A node that serves many others has raised its own."""
    if limits:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0], limits[1]))


def limit_memory(most: int | None) -> None:
    """So many bytes of its own; None: as before."""
    if most is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        _given.append((soft, hard))
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
    elif _given:
        resource.setrlimit(resource.RLIMIT_DATA, _given.pop())


def memory() -> int:
    """Bytes that are this process's, with its part of what it shares."""
    try:
        with open("/proc/self/smaps_rollup") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration, ValueError):
        return 0
