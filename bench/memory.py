"""The memory of the launcher itself while eight workers sleep."""

from __future__ import annotations

import time
from functools import partial

from bench.harness import FLOTA, PADDLE, TORCHRUN, alternate, sleeping_job
from bench.processes import proportional_memory
from bench.table import NOT_MEASURED, Row

TURNS = {FLOTA: 3, TORCHRUN: 2, PADDLE: 1}
SETTLING = 2.0  # seconds after the last worker's start
BAR = 20  # MiB


def measure() -> list[Row]:
    held = alternate({name: (turns, partial(_mebibytes, name)) for name, turns in TURNS.items()})
    return [
        Row(
            "memory (PSS of all but the workers), 8 idle workers",
            f"{held[FLOTA]:.1f} MiB",
            ratio=f"1/{held[TORCHRUN] / held[FLOTA]:.1f} of torchrun",
            bar=f"<= {BAR} MiB",
            met=held[FLOTA] <= BAR,
            torchrun=f"{held[TORCHRUN]:.1f} MiB",
            paddle=f"{held[PADDLE]:.1f} MiB" if PADDLE in held else NOT_MEASURED,
        )
    ]


def _mebibytes(launcher: str) -> float:
    with sleeping_job(launcher, 8) as (pid, job):
        own = job.launcher_below(pid)
        time.sleep(SETTLING)
        return sum(map(proportional_memory, own)) / (1 << 20)
