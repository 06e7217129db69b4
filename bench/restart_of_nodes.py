"""From the death of one worker until the workers of the next round reach their first line, on all of eight nodes."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from bench.harness import FLOTA, PLAIN, alternate, free_port, seconds_to_first_lines, sleeping_job
from bench.table import NOT_MEASURED, Row, milliseconds

COUNT = 8
SETTLING = 1.0  # seconds; no worker is still importing when one is killed
BAR = 0.5  # seconds


def measure() -> list[Row]:
    # The time that this many interpreters take to boot on this machine: the lower bound of a restart.
    plain = partial(seconds_to_first_lines, PLAIN, COUNT)
    took = alternate({PLAIN: (7, plain), FLOTA: (7, _seconds)})
    return [
        Row(
            f"SIGKILL of a worker to the next round on all {COUNT} nodes",
            milliseconds(took[FLOTA]),
            ratio=NOT_MEASURED,
            bar=f"<= {BAR} s",
            met=took[FLOTA] <= BAR,
            plain=f"{milliseconds(took[PLAIN])} (a start)",
        )
    ]


def _seconds() -> float:
    where = ("--nnodes", COUNT, "--master", f"127.0.0.1:{free_port()}", "--max_restart", 3)
    with sleeping_job(FLOTA, 1, *where, nodes=COUNT) as (_, job):
        workers = job.wait_for(attempt=0)
        time.sleep(SETTLING)
        killed = time.monotonic()
        os.kill(next(iter(workers)), signal.SIGKILL)
        return max(job.wait_for(attempt=1).values()) - killed
