"""Runs the real command for tests, waits for conditions, and finds processes that are left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).parent / "processes" / "workers"
COMMAND = Path(sys.executable).parent / "flota"
DEADLINE = 60.0  # seconds: only a hang takes that long, also on a busy machine
EXIT_DEADLINE = 25.0  # for an exit: less than the default of --grace, because tests must notice one that is not needed
SHEPHERD = "shepherd"  # its name, and its command line
PR_SET_CHILD_SUBREAPER = 36
also: dict[str, str] = {}  # variables for every flota, for tests that are repeated with another setting

# The tests may run under nohup or as a background job of a shell, where signals are ignored: flota would inherit that.
for ignored in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(ignored, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# Processes that flota leaves behind become children of this process, so that they are always found.
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Running:
    """A running flota."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self.directory = directory
        self.pid = process.pid

    def wait(self, timeout: float = EXIT_DEADLINE) -> int:
        return self.process.wait(timeout)

    def output(self, timeout: float = EXIT_DEADLINE) -> tuple[str, str]:
        out, err = self.process.communicate(timeout=timeout)
        return out.decode(errors="replace"), err.decode(errors="replace")

    def shepherd(self) -> int:
        wait_until(self.shepherds, "a shepherd")
        return self.shepherds()[0]

    def shepherds(self) -> list[int]:
        return [pid for pid in children(self.pid) if name_of(pid) == SHEPHERD]

    def wait_for(self, *names: str) -> None:
        """Wait until workers have created these files."""
        for name in names:
            wait_until((self.directory / name).exists, f"{name} to be created")


class Flota:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[Running] = []
        self.before = survivors()  # processes of session fixtures, such as an etcd

    def start(
        self, *words: object, env: dict[str, str] | None = None, command: list[object] | None = None, **options: Any
    ) -> Running:
        """Start flota. A word that is the name of a file in tests/processes/workers is replaced by its path."""
        argv = [*(command or [COMMAND]), *(script(word) for word in words)]
        given: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.directory,
            **options,
        }
        process = subprocess.Popen([str(word) for word in argv], env=environment(env), **given)
        self.started.append(Running(process, self.directory))
        return self.started[-1]

    def run(self, *words: object, timeout: float = 60.0, **options: Any) -> subprocess.CompletedProcess[str]:
        running = self.start(*words, **options)
        out, err = running.output(timeout)
        return subprocess.CompletedProcess(running.process.args, running.process.returncode, out, err)

    def log(self, rank: int, directory: str = "log") -> str:
        """A worker's own output: its log without the lines that flota adds."""
        return worker_output(self.directory / directory / f"workerlog.{rank}")

    def end(self) -> None:
        for running in self.started:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
            for stream in (running.process.stdout, running.process.stderr):
                if stream:
                    stream.close()
        for pid in set(survivors()) - set(self.before):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def worker_output(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("===== flota:"))


def script(word: object) -> object:
    return WORKERS / str(word) if (WORKERS / str(word)).is_file() else word


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of this process, without variables that would affect the tests."""
    unwanted = ("PYTHON", "FLOTA_", "PADDLE_", "PET_", "TORCH", "VIRTUAL_ENV", "CONDA_", "OMP_", "NO_COLOR", "CUDA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, **also, **(extra or {})}


def slow_spy(stage: Path, spy: Path = COMMAND.parent / "py-spy") -> str:
    """A script that replaces py-spy. Its last dump, with native frames, waits until the file `spoke` exists."""
    waits = f'touch dumping; until [ -e spoke ]; do sleep 0.05; done; {spy} "$@"; touch dumped'
    return f'cd {stage}; case "$*" in *--native*) {waits};; *) exec {spy} "$@";; esac'


def wait_until(condition: Callable[[], object], what: str, timeout: float = DEADLINE) -> None:
    give_up = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {timeout} s for {what}")
        time.sleep(0.005)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""  # gone


def children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        return [int(child) for task in tasks for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except OSError:
        return []


def state(pid: int) -> str:
    """R, S, … as reported by the kernel; X if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def descendants(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def survivors() -> list[int]:
    """Descendants of this process that are alive. Zombies are reaped and not counted."""
    alive = [pid for pid in descendants(os.getpid()) if state(pid) not in "ZX"]
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    return alive


def assert_nobody_left(timeout: float = EXIT_DEADLINE, spared: Collection[int] = ()) -> None:
    left = set(survivors()) - set(spared)
    wait_until(lambda: not set(survivors()) - set(spared), f"these processes to exit: {left}", timeout)
