"""Crashes of one rank of four, while the others wait for it: whether the report names rank and cause, and how soon.

All launchers run the same script with the same faults. For the other launchers the test is lenient: the rank must be in
what the launcher itself prints about the first failure, but the cause may be anywhere in the output.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import NamedTuple

from tests.faults.kinds import CRASHES, EARLY, KINDS, Kind

from bench import environments
from bench.harness import FLOTA, PADDLE, TORCHRUN, directory, free_port, launch, launchers
from bench.table import NOT_MEASURED, Row

WORKERS, CULPRIT = 4, 2
BAR = 1.0  # seconds from the crash to the exit of the launcher, including the wait for the first failure
PATIENCE = 120.0
# Any of these in the output names the cause, and so does the text in parentheses of flota's own line.
WORDS = {
    "killed": ("SIGKILL",),
    "terminated": ("SIGTERM",),
    "segmentation-fault": ("SIGSEGV", "Segmentation fault"),
    "aborted": ("SIGABRT",),
    "signalled": ("SIGINT", "SIGBUS", "KeyboardInterrupt"),
    "exited": ("exitcode  : {}", "code {}"),
    "out-of-memory": ("MemoryError",),
    "device-out-of-memory": ("ut of memory", "RESOURCE_EXHAUSTED"),
    "disk-full": ("No space left on device",),
    "missing-module": ("No module named",),
    "failed-import": ("ImportError",),
    "port-in-use": ("Address already in use",),
    "too-many-files": ("Too many open files",),
    "local-rank-argument": ("unrecognized arguments",),
    "usage": ("arguments are required",),
    "syntax-error": ("SyntaxError",),
    "bad-path": ("can't open file",),
    "left-early": (f"rank {CULPRIT}",),
}


class Diagnosis(NamedTuple):
    """What a launcher reported about a crash."""

    rank: bool
    cause: bool
    seconds: float

    @property
    def right(self) -> bool:
        return self.rank and self.cause

    @property
    def words(self) -> str:
        partly = "rank only" if self.rank else "cause only" if self.cause else "wrong"
        return f"{'right' if self.right else partly}, {self.seconds:.1f} s"


def measure() -> list[Row]:
    kinds = [*KINDS, EARLY]
    found = {kind: {launcher: _crash(launcher, kind) for launcher in launchers()} for kind in kinds}
    return [*(_row(kind, answers) for kind, answers in found.items()), _sum(list(found.values()))]


def _row(kind: Kind, found: dict[str, Diagnosis]) -> Row:
    own = found[FLOTA]
    return Row(
        f"crash: {kind.fault}",
        own.words,
        ratio="-",
        bar=f"right, <= {BAR:.0f} s",
        met=own.right and own.seconds <= BAR,
        torchrun=found[TORCHRUN].words,
        paddle=found[PADDLE].words if PADDLE in found else NOT_MEASURED,
    )


def _sum(found: list[dict[str, Diagnosis]]) -> Row:
    right = {launcher: f"{sum(one[launcher].right for one in found)} right" for launcher in launchers()}
    return Row(
        f"of {len(found)} kinds of crashes: rank and cause",
        right[FLOTA],
        ratio="-",
        bar=f"{len(found)} right",
        met=all(one[FLOTA].right for one in found),
        torchrun=right[TORCHRUN],
        paddle=right.get(PADDLE, NOT_MEASURED),
    )


def _crash(launcher: str, kind: Kind) -> Diagnosis:
    endpoints = ",".join(f"127.0.0.1:{free_port()}" for _ in range(WORKERS))
    env = {**environments.environ(), "FAULT": kind.fault, "CULPRIT": str(CULPRIT)}
    env |= {"CRASH_ENDPOINTS": endpoints} if launcher == TORCHRUN else {}
    with directory() as here:
        flags = ("--grace", 5) if launcher == FLOTA else ()
        command = launch(launcher, WORKERS, *flags, CRASHES)
        ended = subprocess.run(
            command, cwd=here, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )
        over = time.monotonic()
        fell = next(path for path in (here / "log" / "fell", here / "fell") if os.path.exists(path))
        return _judge(launcher, kind, ended.stdout + ended.stderr, over - float(fell.read_text()))


def _judge(launcher: str, kind: Kind, screen: str, seconds: float) -> Diagnosis:
    if launcher == FLOTA:
        page = screen[screen.find("ABORT!!!") :].splitlines()
        words = "exited too early" if kind is EARLY else "failed first"
        rank, line = f"rank {CULPRIT} {words}: ", page[1] if len(page) > 1 else ""
        return Diagnosis(line.startswith(rank), line.startswith(f"{rank}{kind.ending}"), seconds)
    marks = {
        TORCHRUN: ("Root Cause", f"rank      : {CULPRIT} "),
        PADDLE: ("Container failed", f"Container rank {CULPRIT} "),
    }
    begin, named = marks[launcher]
    summary = screen[screen.find(begin) :] if begin in screen else ""
    summary = "\n".join(summary.splitlines()[:8])
    cause = any(word.format(kind.code) in screen for word in _telling(kind))
    return Diagnosis(named in summary, cause, seconds)


def _telling(kind: Kind) -> tuple[str, ...]:
    bracketed = kind.ending.partition("(")[2].partition(")")[0]
    return (*WORDS.get(kind.cause, ()), *([bracketed] if bracketed else []))
