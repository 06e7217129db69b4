"""What watching for hangs and slow ranks takes of a CPU while eight workers step and print. All in the same seconds."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import FLOTA, WORKERS, sleeping_job
from bench.processes import cpu_used
from bench.table import Row

SETTLING, WATCHED = 15.0, 40.0  # seconds
BAR = 0.1  # percent
SCRIPT = WORKERS / "note_and_train.py"
FLAGS = {"unwatched": (), "20s": ("--hang-timeout", "20s"), "auto": ("--hang-timeout", "auto")}


def measure() -> list[Row]:
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(sleeping_job(FLOTA, 8, "--console", "none", *flags, script=SCRIPT))
            for name, flags in FLAGS.items()
        }
        own = {name: job.launcher_below(pid) for name, (pid, job) in started.items()}
        time.sleep(SETTLING)
        used = cpu_used(own, WATCHED)
    percent = {name: 100 * seconds / WATCHED for name, seconds in used.items()}
    return [
        Row(
            f"CPU over {WATCHED:.0f} s, 8 workers, --hang-timeout {name}",
            f"{percent[name]:.4f} %",
            ratio=f"{percent[name] - percent['unwatched']:+.4f} % to unwatched",
            bar=f"<= {BAR} % more",
            met=percent[name] - percent["unwatched"] <= BAR,
            plain=f"{percent['unwatched']:.4f} %",
        )
        for name in ("20s", "auto")
    ]
