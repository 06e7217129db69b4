"""Runs the commands under measurement, reads their resource usage from /proc, and kills everything that they leave."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from bench.environments import environ

PR_SET_CHILD_SUBREAPER = 36
CPU_CLOCK = 2  # of a process, in the number of a clock: see clock_getcpuclockid(3)
PATIENCE = 60.0  # seconds; no measured command should take that long


class Broken(Exception):
    """A measured command did not do what it should."""


class Span(NamedTuple):
    """The time before and after a command."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def finish(command: list[str], directory: Path) -> Span:
    """Run a command, which must succeed."""
    began = time.monotonic()
    with running(command, directory) as process:
        ended = _moment_of_end(process.pid)
        code = process.wait()
    check_ending(command, code, directory)
    return Span(began, ended)


def _moment_of_end(pid: int) -> float:
    """Waits on a pidfd: `Popen.wait` with a timeout polls every 50 ms, a quarter of some of the times measured here."""
    descriptor = os.pidfd_open(pid)
    try:
        if not select.select([descriptor], [], [], PATIENCE)[0]:
            raise Broken(f"process {pid} did not exit in {PATIENCE} s")
        return time.monotonic()
    finally:
        os.close(descriptor)


def check_ending(command: list[str], code: int, directory: Path) -> None:
    if code:
        raise Broken(f"`{' '.join(command)}` exited with {code}:\n{(directory / 'stderr').read_text()}")


@contextmanager
def running(command: list[str], directory: Path, stdout: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command, and kill it and all that it started when the block ends."""
    with open(directory / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environ() | {"TMPDIR": str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def adopt_orphans() -> None:
    """Make processes that a launcher leaves behind children of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Between claims, when nothing is measured, every descendant is an orphan."""
    for pid in descendants(os.getpid()):
        descriptor = _descriptor(pid)
        if descriptor is not None:
            _kill(descriptor)
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            pass


def wait_until(true: Callable[[], bool], what: str, every: float = 0.005) -> None:
    give_up = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > give_up:
            raise Broken(f"waited {PATIENCE:.0f} s for {what}")
        time.sleep(every)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children(queue.pop())
        found += below
        queue += below
    return found


def proportional_memory(pid: int) -> int:
    """Bytes; shared memory is divided between the processes that share it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    raise Broken(f"no Pss of process {pid}")


def resident_memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def peak_memory(pid: int) -> int:
    """The peak of the resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise Broken(f"no VmHWM of process {pid}")


def cpu_used(own: dict[str, set[int]], seconds: float) -> dict[str, float]:
    """CPU time of each group of processes over this many seconds."""
    before = {name: sum(map(cpu_seconds, pids)) for name, pids in own.items()}
    time.sleep(seconds)
    return {name: sum(map(cpu_seconds, pids)) - before[name] for name, pids in own.items()}


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads, also of those that have ended, from the process's own clock: clock ticks are too coarse
    for a process that sleeps. Includes exited children, for which there are only clock ticks.
    """
    ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    return time.clock_gettime(~pid << 3 | CPU_CLOCK) + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    try:
        lists = [task.joinpath("children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    return [int(child) for listed in lists for child in listed.split()]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop it as its user would, then kill what it left behind; a pidfd cannot refer to another process."""
    left = [_descriptor(pid) for pid in descendants(process.pid)] if process.poll() is None else []
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for descriptor in left:
        if descriptor is not None:
            _kill(descriptor)


def _descriptor(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _kill(descriptor: int) -> None:
    with suppress(ProcessLookupError):  # it has exited
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    os.close(descriptor)
