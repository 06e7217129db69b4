"""Hangs of one rank of three, while the others wait for it, and silent work: which rank is named, and how soon.

All launchers run the same script with the same faults. For the other launchers the test is lenient: it is enough
that the rank is mentioned.
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
HANGS = dict.fromkeys(KINDS, "rank 1 blocks the others")
HANGS["dropped"] = "no rank stands out"
QUIET = (
    "compile", "children", "checkpoint", "evaluation", "remote evaluation", "native evaluation", "download", "upload",
    "library", "pickle", "threads", "in turn",
)  # fmt: skip


class Detection(NamedTuple):
    """What a launcher reported about a hang within twice the timeout."""

    found: bool
    right: bool
    seconds: float

    @property
    def words(self) -> str:
        if not self.found:
            return f"nothing in {2 * TIMEOUT:.0f} s"
        return f"{'right' if self.right else 'wrong'}, {self.seconds:.1f} s"


def measure() -> list[Row]:
    found = {kind: {launcher: _hang(launcher, kind) for launcher in launchers()} for kind in HANGS}
    alarms = {kind: _is_alarmed(kind) for kind in QUIET}
    return [
        *(_row(kind, answers) for kind, answers in found.items()),
        *(
            Row(
                f"silent work: {kind}",
                "an alarm" if alarmed else "no alarm",
                ratio="-",
                bar="no alarm",
                met=not alarmed,
            )
            for kind, alarmed in alarms.items()
        ),
    ]


def _row(kind: str, found: dict[str, Detection]) -> Row:
    seconds = found[FLOTA].seconds
    return Row(
        f"hang: {kind}, --hang-timeout {TIMEOUT:.0f}s",
        found[FLOTA].words,
        ratio=f"{seconds / TIMEOUT:.1f} x the timeout",
        bar=f"right, <= {2 * TIMEOUT:.0f} s",
        met=found[FLOTA].right and seconds <= 2 * TIMEOUT,
        torchrun=found[TORCHRUN].words,
        paddle=found[PADDLE].words if PADDLE in found else NOT_MEASURED,
    )


def _hang(launcher: str, kind: str) -> Detection:
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


def _wait_for_word(process: subprocess.Popen[bytes], screen: Path, kind: str, began: float) -> Detection:
    while time.monotonic() < began + 2 * TIMEOUT and process.poll() is None:
        time.sleep(0.02)
    text = screen.read_text(errors="replace").partition("step 3")[2]
    right = HANGS[kind] in text
    return Detection(right or f"rank {CULPRIT}" in text, right, time.monotonic() - began)


def _is_alarmed(kind: str) -> bool:
    with directory() as here:
        command = launch(FLOTA, 2, "--hang-timeout", TIMEOUT / 2, SCRIPTS / "works_quietly.py", kind, 3 * TIMEOUT / 2)
        ended = subprocess.run(command, cwd=here, env=environments.environ(), capture_output=True, text=True)
        if ended.returncode not in (0, 124):
            raise Broken(f"`{' '.join(command)}` ended with {ended.returncode}: {ended.stderr[-2000:]}")
        return "the job hangs" in ended.stderr


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM first, so that it stops its workers; those that it leaves behind are killed at the end of the run."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
