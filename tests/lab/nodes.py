"""Runs flota on hosts of a lab: one node per host, each with its own directory and output."""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

from tests.lab.hosts import Host
from tests.lab.lab import Lab
from tests.launching import DEADLINE, EXIT_DEADLINE, environment, script, wait_until, worker_output

MARK = "LAB_NODE"
ALTERED = Path(__file__).parent / "altered.py"
numbers = itertools.count()


class Node:
    """A running flota on a host."""

    def __init__(
        self, host: Host, command: list[object], words: list[object], directory: Path, env: dict[str, str] | None
    ) -> None:
        self.host = host
        self.directory = directory
        # Workers and their children inherit it, so every process of a job can be found, and belongs to one job.
        self._mark = f"{MARK}={os.getpid()}.{next(numbers)}"
        variables = environment({**(env or {}), **dict([self._mark.split("=")])})
        with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
            argv = [sys.executable, *command, *words]
            # Processes of another machine do not receive Ctrl-C of this terminal.
            options = {"stdout": out, "stderr": err, "start_new_session": True}
            self.process = host.popen(argv, env=variables, cwd=directory, **options)

    @property
    def out(self) -> str:
        return (self.directory / "stdout").read_text(errors="replace")

    @property
    def err(self) -> str:
        return (self.directory / "stderr").read_text(errors="replace")

    def wait_for(self, text: str, timeout: float = DEADLINE) -> None:
        """Wait until it has printed this text to stdout or stderr."""
        give_up = time.monotonic() + timeout
        while True:
            ended = self.process.poll() is not None  # checked first: output may arrive just before the exit
            if text in self.out or text in self.err:
                return
            assert not ended, f"it exited without {text!r}\n{self._output()}"
            assert time.monotonic() < give_up, f"waited {timeout} s for {text!r}\n{self._output()}"
            time.sleep(0.005)

    def wait_for_file(self, *names: str, timeout: float = DEADLINE) -> None:
        """Wait until workers have created these files."""
        for name in names:
            wait_until((self.directory / name).exists, f"{name} on {self.host.name}", timeout)

    def wait(self, timeout: float = DEADLINE) -> int:
        """Wait for it to exit. Returns its exit code."""
        try:
            return int(self.process.wait(timeout))
        except Exception as error:
            error.add_note(self._output())
            raise

    def log(self, rank: int) -> str:
        """A worker's own output: its log without the lines that flota adds."""
        return worker_output(self.directory / "log" / f"workerlog.{rank}")

    def survivors(self) -> dict[int, str]:
        """The processes of this node that are alive, including itself, and their command lines."""
        found = {}
        for pid in self.host.processes():
            try:
                if self._mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it has just exited
        return found

    def assert_nobody_left(self, timeout: float = EXIT_DEADLINE) -> None:
        wait_until(lambda: not self.survivors(), f"{self.survivors()} on {self.host.name} to exit", timeout)

    def _output(self) -> str:
        return f"--- {self.host.name}, stdout\n{self.out[-4000:]}\n--- {self.host.name}, stderr\n{self.err[-4000:]}"


class Nodes:
    """Starts flota on the hosts of a lab, below one directory."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        self.started: list[Node] = []

    def start(
        self,
        number: int,
        *words: object,
        env: dict[str, str] | None = None,
        log_dir: bool = True,
        config: str = "",
        clock_offset: float = 0.0,
        lease: int = 0,
    ) -> Node:
        """Start flota on a host. A word that is the name of a file in tests/processes/workers is replaced by its path.
        `config`: the text of its flota.toml; `clock_offset`: the error of its clock, in seconds;
        `lease`: seconds of its lease."""
        host = self.lab.host(number)
        again = sum(node.host is host for node in self.started)
        directory = self.directory / (f"{host.name}.{again + 1}" if again else host.name)
        directory.mkdir()
        if config:
            (directory / "flota.toml").write_text(config)
        logs = ["--log_dir", directory / "log"] if log_dir else []
        command: list[object] = [ALTERED, clock_offset, lease] if clock_offset or lease else ["-m", "flota"]
        self.started.append(Node(host, command, [*logs, *map(script, words)], directory, env))
        return self.started[-1]

    def start_all(self, *words: object, env: dict[str, str] | None = None) -> list[Node]:
        """Start the same command on every host."""
        return [self.start(host.number, *words, env=env) for host in self.lab.hosts]
