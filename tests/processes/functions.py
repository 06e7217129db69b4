"""Functions that tests run as workers. Each does one thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import flota


def rank() -> int:
    return int(os.environ["FLOTA_RANK"])


def gives_rank(*args: object) -> tuple[int, tuple[object, ...]]:
    return rank(), args


def gives_environment() -> dict[str, str]:
    return dict(os.environ)


def gives_much(size: int) -> bytes:
    return b"x" * size


def gives_lock() -> object:
    return threading.Lock()


def says(out: str, err: str) -> None:
    print(out, rank())
    print(err, rank(), file=sys.stderr)


def fails_in(failing: int) -> None:
    if rank() == failing:
        deep_inside(failing)
    time.sleep(1000)  # longer than a test may take


def deep_inside(failing: int) -> None:
    raise ValueError(f"no data for {failing}")


class MissingGuard(Exception):
    """Of the same name as one of flota's."""


def fails_with_a_known_name() -> None:
    raise MissingGuard("of the function's own")


def says_much_and_fails() -> None:
    raise ValueError("first line\nsecond line")


def exits(code: object) -> None:
    sys.exit(code)


def kills_itself(number: int) -> None:
    if rank() == 1:
        os.kill(os.getpid(), number)
    time.sleep(1000)  # longer than a test may take


def ignores_stops(directory: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(directory, f"ready.{rank()}").touch()
    time.sleep(1000)  # longer than a test may take


def counts_until_told(directory: str) -> int:
    step = 0
    while not flota.should_stop():
        step += 1
        flota.heartbeat(step)
        if step == 20:
            Path(directory, f"going.{rank()}").touch()
        time.sleep(0.01)
    return step


def counts_until_called(directory: str) -> None:
    flota.on_stop(lambda: Path(directory, f"saved.{rank()}").write_text(str(step)))
    for step in range(10**6):
        flota.heartbeat(step)
        if step == 20:
            Path(directory, f"going.{rank()}").touch()
        time.sleep(0.01)


def sleeps(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def waits_for(path: str) -> str:
    while not Path(path).exists():
        time.sleep(0.01)
    return path


def starts_others() -> list[tuple[int, tuple[object, ...]]]:
    return flota.spawn(gives_rank, ("inner",), nprocs=2).results()


def lists_descriptors() -> list[str]:
    listing = subprocess.run(
        [sys.executable, "-c", "import os; print(*os.listdir('/proc/self/fd'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return listing.stdout.split()


def gives_cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))
