"""The CPU time of the launcher itself while eight workers sleep. All launchers are measured at the same time."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import FLOTA, PADDLE, TORCHRUN, launchers, sleeping_job
from bench.processes import cpu_used
from bench.table import NOT_MEASURED, Row

SETTLING, WATCHED = 5.0, 20.0  # seconds
BAR = 0.05  # percent


def measure() -> list[Row]:
    with ExitStack() as stack:
        jobs = {name: stack.enter_context(sleeping_job(name, 8)) for name in launchers()}
        own = {name: job.launcher_below(pid) for name, (pid, job) in jobs.items()}
        time.sleep(SETTLING)
        used = cpu_used(own, WATCHED)
    shown = {name: f"{100 * seconds / WATCHED:.4f} %" for name, seconds in used.items()}
    return [
        Row(
            f"CPU over {WATCHED:.0f} s, 8 sleeping workers",
            shown[FLOTA],
            ratio=f"1/{used[TORCHRUN] / used[FLOTA]:,.0f} of torchrun" if used[FLOTA] else "no CPU time at all",
            bar=f"<= {BAR} %",
            met=100 * used[FLOTA] / WATCHED <= BAR,
            torchrun=shown[TORCHRUN],
            paddle=shown.get(PADDLE, NOT_MEASURED),
        )
    ]
