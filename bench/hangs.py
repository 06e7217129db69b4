"""Hangs of one rank of three, while the others wait for it, and quiet work that is none: who is named, and when.

The same script and faults for all launchers. Others are judged kindly: any word about the rank will do.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from bench import environments
from bench.harness import FLOTA, PADDLE, TORCHRUN, directory, free_port, launch, launchers
from bench.processes import Broken, wait_until
from bench.table import NOT_MEASURED, Row

WORKERS, CULPRIT = 3, 1
TIMEOUT = 4.0  # seconds
SCRIPTS = environments.ROOT / "tests" / "processes" / "workers"
KINDS = ("sleep", "deadlock", "gil", "busy", "stopped", "pipe", "server", "poll", "queue", "left")
HANGS = dict.fromkeys(KINDS, "rank 1 makes the others wait")
HANGS["dropped"] = "no rank stands out"
QUIET = (
    "compile", "children", "checkpoint", "evaluation", "remote evaluation", "native evaluation", "download", "upload",
    "library", "pickle", "threads", "in turn",
)  # fmt: skip


class Told(NamedTuple):
    """What a launcher made of a hang within twice the timeout."""

    found: bool
    right: bool
    seconds: float

    @property
    def words(self) -> str:
        if not self.found:
            return f"nothing in {2 * TIMEOUT:.0f} s"
        return f"{'right' if self.right else 'wrong'}, {self.seconds:.1f} s"


def measure() -> list[Row]:
    told = {kind: {launcher: _hang(launcher, kind) for launcher in launchers()} for kind in HANGS}
    alarms = {kind: _is_alarmed(kind) for kind in QUIET}
    return [
        *(_row(kind, answers) for kind, answers in told.items()),
        *(
            Row(
                f"quiet work: {kind}",
                "an alarm" if alarmed else "left alone",
                ratio="-",
                bar="no alarm",
                met=not alarmed,
            )
            for kind, alarmed in alarms.items()
        ),
    ]


def _row(kind: str, told: dict[str, Told]) -> Row:
    seconds = told[FLOTA].seconds
    return Row(
        f"hang: {kind}, --hang-timeout {TIMEOUT:.0f}s",
        told[FLOTA].words,
        ratio=f"{seconds / TIMEOUT:.1f} x the timeout",
        bar=f"right, <= {2 * TIMEOUT:.0f} s",
        met=told[FLOTA].right and seconds <= 2 * TIMEOUT,
        torchrun=told[TORCHRUN].words,
        paddle=told[PADDLE].words if PADDLE in told else NOT_MEASURED,
    )


def _hang(launcher: str, kind: str) -> Told:
    env = {**environments.environ(), "HANG_PORT": str(free_port())}
    flags = ("--hang-timeout", TIMEOUT, "--grace", 1) if launcher == FLOTA else ()
    with directory() as here:
        command = launch(launcher, WORKERS, *flags, SCRIPTS / "hangs.py", kind, CULPRIT)
        with (here / "screen").open("wb") as screen:
            process = subprocess.Popen(
                command,
                cwd=here,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=screen,
                start_new_session=True,
            )
            try:
                steps = [here / f"step.0.{rank}.3" for rank in range(WORKERS)]
                wait_until(lambda: all(step.exists() for step in steps), f"the hang under {launcher}")
                began = time.monotonic()
                return _wait_for_word(process, here / "screen", kind, began)
            finally:
                _end(process)


def _wait_for_word(process: subprocess.Popen[bytes], screen: Path, kind: str, began: float) -> Told:
    while time.monotonic() < began + 2 * TIMEOUT and process.poll() is None:
        time.sleep(0.02)
    text = screen.read_text(errors="replace").partition("step 3")[2]
    right = HANGS[kind] in text
    return Told(right or f"rank {CULPRIT}" in text, right, time.monotonic() - began)


def _is_alarmed(kind: str) -> bool:
    with directory() as here:
        command = launch(FLOTA, 2, "--hang-timeout", TIMEOUT / 2, SCRIPTS / "works_quietly.py", kind, 3 * TIMEOUT / 2)
        ended = subprocess.run(command, cwd=here, env=environments.environ(), capture_output=True, text=True)
        if ended.returncode not in (0, 124):
            raise Broken(f"`{' '.join(command)}` ended with {ended.returncode}: {ended.stderr[-2000:]}")
        return "the job hangs" in ended.stderr


def _end(process: subprocess.Popen[bytes]) -> None:
    """Gently first, so that it ends its workers; those that it forgets are ended with the run."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
