"""Real torch DDP: starts and restarts until all ranks have completed a step, and the memory of the workers."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from bench import environments
from bench.harness import FLOTA, TORCHRUN, WORKERS, alternate, sleeping_job
from bench.processes import descendants, proportional_memory
from bench.table import Row, fraction, milliseconds

SCRIPT = WORKERS / "train_with_torch.py"
PYTHON = ("--python", environments.TORCH / "bin" / "python")
WARM = (*PYTHON, "--warm", "auto", "--max_restart", 3)
COLD = (*PYTHON, "--max_restart", 3)
SETTLING = 3.0  # seconds of training before a worker is killed
# If attempts share a store, torchrun's workers do not find each other after a restart.
RECOVERS = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def measure() -> list[Row]:
    os.environ[RECOVERS] = "1"
    try:
        return [_restart(2, turns=5, bar=20), _restart(8, turns=3, bar=15), _start(), _memory()]
    finally:
        del os.environ[RECOVERS]


def _restart(workers: int, turns: int, bar: int) -> Row:
    took = alternate(
        {
            FLOTA: (turns, partial(_seconds_to_restart, FLOTA, workers, *WARM)),
            TORCHRUN: (turns, partial(_seconds_to_restart, TORCHRUN, workers, "--max-restarts", 3)),
        }
    )
    return _row(f"SIGKILL of a rank to the first step of all {workers}, torch DDP, --warm auto", took, bar)


def _start() -> Row:
    took = alternate(
        {
            FLOTA: (3, partial(_seconds_to_start, FLOTA, *WARM)),
            TORCHRUN: (3, partial(_seconds_to_start, TORCHRUN)),
        }
    )
    return _row("command to the first step of all 8, torch DDP, --warm auto", took, 3)


def _row(what: str, took: dict[str, float], bar: int) -> Row:
    return Row(
        what,
        milliseconds(took[FLOTA]),
        ratio=fraction(took[FLOTA], took[TORCHRUN]),
        bar=f"<= 1/{bar} of torchrun",
        met=took[FLOTA] <= took[TORCHRUN] / bar,
        torchrun=milliseconds(took[TORCHRUN]),
    )


def _memory() -> Row:
    warm, cold = _mebibytes(*WARM), _mebibytes(*COLD)
    return Row(
        "memory (PSS) of 8 torch workers: forks and their parked parent, compared with a cold start",
        f"{warm:,.0f} MiB",
        ratio=f"{warm / cold:.2f} of cold",
        bar="<= 0.35 of cold",
        met=warm <= 0.35 * cold,
        plain=f"{cold:,.0f} MiB (cold)",
    )


def _seconds_to_start(launcher: str, *flags: object) -> float:
    began = time.monotonic()
    with sleeping_job(launcher, 8, *flags, script=SCRIPT) as (_, job):
        return max(job.wait_for(attempt=0).values()) - began


def _seconds_to_restart(launcher: str, workers: int, *flags: object) -> float:
    with sleeping_job(launcher, workers, *flags, script=SCRIPT) as (_, job):
        first = job.wait_for(attempt=0)
        time.sleep(SETTLING)
        killed = time.monotonic()
        os.kill(next(iter(first)), signal.SIGKILL)
        return max(job.wait_for(attempt=1).values()) - killed


def _mebibytes(*flags: object) -> float:
    """Of all descendants of flota: the workers, and the interpreters that they were forked from."""
    with sleeping_job(FLOTA, 8, *flags, script=SCRIPT) as (pid, job):
        job.wait_for(attempt=0)
        time.sleep(SETTLING)
        return sum(map(proportional_memory, descendants(pid))) / (1 << 20)
