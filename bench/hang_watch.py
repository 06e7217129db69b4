"""The CPU time of watching for hangs and slow ranks while eight workers report steps and print, often or just often
enough not to look like a hang. All cases are measured at the same time.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import FLOTA, WORKERS, sleeping_job
from bench.processes import cpu_used
from bench.table import Row

SETTLING, WATCHED = 15.0, 45.0  # seconds
BAR = 0.1  # percent
OFTEN, RARELY = WORKERS / "note_and_train.py", WORKERS / "note_and_print.py"
UNWATCHED = {OFTEN: "often, unwatched", RARELY: "rarely, unwatched"}
CASES = {
    "20s": (OFTEN, ("--hang-timeout", "20s")),
    "auto": (OFTEN, ("--hang-timeout", "auto")),
    "20s, a line every 15 s": (RARELY, ("--hang-timeout", "20s")),
    **{name: (script, ()) for script, name in UNWATCHED.items()},
}


def measure() -> list[Row]:
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(sleeping_job(FLOTA, 8, "--console", "none", *flags, script=script))
            for name, (script, flags) in CASES.items()
        }
        own = {name: job.launcher_below(pid) for name, (pid, job) in started.items()}
        time.sleep(SETTLING)
        used = cpu_used(own, WATCHED)
    percent = {name: 100 * seconds / WATCHED for name, seconds in used.items()}
    return [_row(name, percent[name], percent[UNWATCHED[script]]) for name, (script, flags) in CASES.items() if flags]


def _row(name: str, percent: float, unwatched: float) -> Row:
    return Row(
        f"CPU over {WATCHED:.0f} s, 8 workers, --hang-timeout {name}",
        f"{percent:.4f} %",
        ratio=f"{percent - unwatched:+.4f} % vs. unwatched",
        bar=f"<= {BAR} % more",
        met=percent - unwatched <= BAR,
        plain=f"{unwatched:.4f} %",
    )
