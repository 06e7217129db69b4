"""Shared by all claims: command lines of the launchers, measurements in turn, and temporary directories."""

from __future__ import annotations

import socket
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import environments
from bench.processes import Broken, descendants, finish, running, wait_until

WORKERS = Path(__file__).resolve().parent / "workers"
PLAIN, FLOTA, TORCHRUN, PADDLE = "plain", "flota", "torchrun", "paddle"
PADDLES_MODULE = ("-m", "paddle.distributed.launch")

Turn = Callable[[], float]


def launch(launcher: str, workers: int, *words: object) -> list[str]:
    """A launcher's command line; `words` are additional flags, the script and the script's arguments."""
    bench, torch, paddle = (path / "bin" for path in (environments.BENCH, environments.TORCH, environments.PADDLE))
    heads: dict[str, tuple[object, ...]] = {
        FLOTA: (bench / "flota", "--nproc_per_node", workers, "--log_dir", "log"),
        TORCHRUN: (torch / "torchrun", "--nproc-per-node", workers, "--log-dir", "log"),
        PADDLE: (paddle / "python", *PADDLES_MODULE, "--nproc_per_node", workers, "--log_dir", "log"),
    }
    return [str(word) for word in (*heads[launcher], *words)]


def launch_plainly(workers: int, *words: object) -> list[str]:
    """The same script without a launcher: run directly, or several of them started by a shell."""
    return side_by_side(workers, [str(environments.PYTHON), *map(str, words)])


def launchers() -> list[str]:
    """The launchers to compare: Paddle's is not available on every machine."""
    return [FLOTA, TORCHRUN, *([PADDLE] if environments.has_paddle() else [])]


def side_by_side(count: int, command: list[str]) -> list[str]:
    """Run a command `count` times at once, by a shell."""
    # Each in its own session, as with launchers: the kernel divides the CPUs of a busy machine between sessions.
    return command if count == 1 else ["sh", "-c", 'setsid "$@" & ' * count + "wait", "sh", *command]


def alternate(turns: dict[str, tuple[int, Turn]]) -> dict[str, float]:
    """Medians of the given number of turns. The turns alternate, so that noise on the machine affects all of them. One
    turn each is not counted: it fills the file cache and writes missing bytecode.
    """
    turns = {name: turn for name, turn in turns.items() if name != PADDLE or environments.has_paddle()}
    for _, take in turns.values():
        take()
    taken: dict[str, list[float]] = {name: [] for name in turns}
    rounds = max(count for count, _ in turns.values())
    for number in range(rounds):
        for name in turns if number % 2 else reversed(turns):
            count, take = turns[name]
            if number * count // rounds != (number + 1) * count // rounds:  # spread few turns over all rounds
                taken[name].append(take())
    return {name: statistics.median(values) for name, values in taken.items()}


def seconds_to_first_lines(launcher: str, workers: int, *files: Path) -> float:
    """From the start of the command to the first line of the script in the last worker."""
    with directory(*files) as here:
        script = noting_script(here)
        command = launch_plainly(workers, *script) if launcher == PLAIN else launch(launcher, workers, *script)
        began = finish(command, here).began
        return last_start(here, workers) - began


def noting_script(here: Path) -> tuple[Path, Path]:
    """A script that records its start time in a directory, and that directory."""
    notes = here / "notes"
    notes.mkdir()
    return WORKERS / "note_start.py", notes


def last_start(here: Path, workers: int) -> float:
    starts = [float(note.read_text()) for note in (here / "notes").iterdir()]
    if len(starts) != workers:
        raise Broken(f"{len(starts)} workers of {workers} ran: {(here / 'stderr').read_text()}")
    return max(starts)


class Sleepers:
    """A job whose workers record their start times and sleep; several nodes run on one machine."""

    def __init__(self, launcher: str, workers: int, here: Path, *flags: object, nodes: int, script: Path) -> None:
        self.workers = workers * nodes
        self.notes = here / "notes"
        self.notes.mkdir()
        node = launch(launcher, workers, *flags, script, self.notes)
        self.command = side_by_side(nodes, node)

    def launcher_below(self, pid: int) -> set[int]:
        """The launcher's own processes, once all of its workers have started."""
        workers = self.wait_for(attempt=0)
        return {pid, *descendants(pid)} - workers.keys()

    def wait_for(self, attempt: int) -> dict[int, float]:
        """Wait until all workers of an attempt have started. Returns the start times by pid."""
        notes = self.notes / str(attempt)
        wait_until(
            lambda: notes.exists() and len(list(notes.iterdir())) == self.workers,
            f"{self.workers} workers of attempt {attempt} of `{' '.join(self.command)}`",
        )
        return {int(note.name): float(note.read_text()) for note in notes.iterdir()}


@contextmanager
def sleeping_job(
    launcher: str, workers: int, *flags: object, nodes: int = 1, script: Path = WORKERS / "note_and_sleep.py"
) -> Iterator[tuple[int, Sleepers]]:
    """A launcher's pid and its job, stopped when the block ends. `script` records its start and sleeps or works."""
    with directory() as here:
        job = Sleepers(launcher, workers, here, *flags, nodes=nodes, script=script)
        with running(job.command, here) as process:
            yield process.pid, job
            # A dead job uses no resources: the measurement counts only if the job ran to the end.
            if process.poll() is not None:
                raise Broken(f"`{' '.join(job.command)}` ended with {process.returncode} while it was measured")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def directory(*files: Path) -> Iterator[Path]:
    """A working directory with copies of some files."""
    with tempfile.TemporaryDirectory(prefix="flota-bench-") as path:
        here = Path(path)
        for file in files:
            (here / file.name).write_bytes(file.read_bytes())
        yield here
