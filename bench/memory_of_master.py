"""The peak memory of a master, from its start until all of 4,096 nodes have the roster and have reported it."""

from __future__ import annotations

from bench.large_job import large_job
from bench.processes import cpu_seconds, peak_memory, wait_until
from bench.table import NOT_MEASURED, Row

COUNT = 4096
TURNS = 2
BAR = 80  # MiB
IDLE = 0.02  # seconds of CPU time between two checks


def measure() -> list[Row]:
    held = max(_mebibytes() for _ in range(TURNS))
    return [
        Row(f"master's peak memory, {COUNT:,} nodes", f"{held:.1f} MiB", NOT_MEASURED, f"<= {BAR} MiB", held <= BAR)
    ]


def _mebibytes() -> float:
    with large_job(COUNT) as job:
        used = [0.0]

        def is_idle() -> bool:
            used.append(cpu_seconds(job.master))
            return used[-1] - used[-2] < IDLE

        wait_until(is_idle, "the master to answer all nodes", every=0.5)
        return peak_memory(job.master) / (1 << 20)
