"""From the death of one worker until all eight of the next attempt reach their first line: a job's first restart.

(torchrun waits for a random time of up to 0.3 s in the first rendezvous after the start, but not in later ones.)
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from bench.harness import FLOTA, PLAIN, TORCHRUN, alternate, seconds_to_first_lines, sleeping_job
from bench.table import Row, fraction, milliseconds

SETTLING = 0.5  # seconds; no worker is still importing when one is killed


def measure() -> list[Row]:
    took = alternate(
        {
            # The time that eight interpreters take to boot on this machine: the lower bound of a restart.
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
