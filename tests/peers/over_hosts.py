"""Real frameworks on hosts of a network lab: one flota per host, whose workers use the framework's interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.lab import Lab, missing
from tests.lab.nodes import Node, Nodes
from tests.launching import wait_until

from .conftest import Peer, results, script

needs_lab = pytest.mark.skipif(missing() is not None, reason=str(missing()))
MASTER = "10.77.0.1:8090"  # host 1 serves
# As Debian's installer writes it: a host's own name resolves to an address that only the host itself can reach.
MISLEADING = "127.0.0.1 localhost\n127.0.1.1 {}\n"
PATIENCE = 100.0  # seconds for all workers to start: each imports its framework, perhaps on only two cores


class States:
    """The directory in which checkpointed.py saves, and the gate file that limits its progress."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def newest(self) -> int:
        return max((int(path.stem.removeprefix("step-")) for path in self.directory.glob("step-*.pt")), default=0)

    def wait_for_step_after(self, step: int) -> None:
        wait_until(lambda: self.newest() > step, f"a state after step {step}", PATIENCE)

    def open_gate(self, step: int) -> None:
        """Let the training continue up to this step."""
        (self.directory / "gate.new").write_text(str(step))
        (self.directory / "gate.new").rename(self.directory / "gate")


class Job:
    """One script on many hosts, and the current node of each host."""

    def __init__(self, framework: str, lab: Lab, directory: Path, name: str, *words: object) -> None:
        self.python = Peer(framework, directory).bin / "python"
        self.trained = (script(name), *words)
        self.nodes = Nodes(lab, directory)
        self.on: dict[int, Node] = {}

    def start(self, numbers: Iterable[int], *flags: object) -> None:
        for number in numbers:
            self.on[number] = self.nodes.start(number, "--python", self.python, *flags, *self.trained)

    def finish(self) -> None:
        """Wait until every node has succeeded, and check that it leaves no process."""
        for node in self.on.values():
            assert node.wait(PATIENCE) == 0, node.err
            node.assert_nobody_left()

    def story(self) -> list[str]:
        """The last output of every node, to debug a failed test."""
        return [f"--- {node.directory.name}, stderr\n{node.err[-3000:]}" for node in self.nodes.started]

    def results(self) -> dict[int, list[str]]:
        """The results that each rank printed; a rank may have moved from host to host."""
        found: dict[int, list[str]] = {}
        for log in sorted(self.nodes.directory.glob("host*/log/workerlog.*")):
            found.setdefault(int(log.suffix[1:]), []).extend(results(log.read_text()))
        return found
