"""From the death of one worker to all eight of the next attempt at their first line: a job's first restart.

(torchrun waits for a random time of up to 0.3 s when a job meets again for the first time, and not later on.)
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from bench.harness import FLOTA, PLAIN, TORCHRUN, alternate, seconds_to_first_lines, sleeping_job
from bench.table import Row, fraction, milliseconds

SETTLING = 0.5  # seconds; nobody is still importing when the blow falls


def measure() -> list[Row]:
    took = alternate(
        {
            # What eight interpreters need to boot on this machine: no restart of theirs can take less.
            PLAIN: (9, partial(seconds_to_first_lines, PLAIN, 8)),
            FLOTA: (9, partial(_seconds, FLOTA, "--max_restart")),
            TORCHRUN: (9, partial(_seconds, TORCHRUN, "--max-restarts")),
        }
    )
    return [
        Row(
            "SIGKILL of a worker to all 8 of the next attempt",
            milliseconds(took[FLOTA]),
            ratio=fraction(took[FLOTA], took[TORCHRUN]),
            bar="<= 1/3 of torchrun",
            met=took[FLOTA] <= took[TORCHRUN] / 3,
            torchrun=milliseconds(took[TORCHRUN]),
            plain=f"{milliseconds(took[PLAIN])} (a start)",
        )
    ]


def _seconds(launcher: str, flag: str) -> float:
    with sleeping_job(launcher, 8, flag, 3) as (_, job):
        workers = job.wait_for(attempt=0)
        time.sleep(SETTLING)
        killed = time.monotonic()
        os.kill(next(iter(workers)), signal.SIGKILL)
        return max(job.wait_for(attempt=1).values()) - killed
