"""The most memory that a master ever held, from its start to all of 4,096 nodes having the roster and telling so."""

from __future__ import annotations

from bench.meeting import meeting
from bench.processes import cpu_seconds, peak_memory, wait_until
from bench.table import NOT_MEASURED, Row

COUNT = 4096
TURNS = 2
BAR = 80  # MiB
IDLE = 0.02  # seconds of CPU between two looks


def measure() -> list[Row]:
    held = max(_mebibytes() for _ in range(TURNS))
    return [
        Row(f"master's peak memory, {COUNT:,} nodes", f"{held:.1f} MiB", NOT_MEASURED, f"<= {BAR} MiB", held <= BAR)
    ]


def _mebibytes() -> float:
    with meeting(COUNT) as met:
        used = [0.0]

        def is_idle() -> bool:
            used.append(cpu_seconds(met.master))
            return used[-1] - used[-2] < IDLE

        wait_until(is_idle, "the master to have answered everybody", every=0.5)
        return peak_memory(met.master) / (1 << 20)
