"""Real frameworks on hosts of a network lab: one flota a host, its workers with the framework's own interpreter."""

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
# As Debian's installer writes it: a host's own name leads to an address that only the host itself can reach.
MISLEADING = "127.0.0.1 localhost\n127.0.1.1 {}\n"
PATIENCE = 100.0  # seconds for all workers to start: each imports its framework, and there may be but two cores


class States:
    """The directory in which checkpointed.py saves, and the gate that holds it up."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def newest(self) -> int:
        return max((int(path.stem.removeprefix("step-")) for path in self.directory.glob("step-*.pt")), default=0)

    def wait_for_step_after(self, step: int) -> None:
        wait_until(lambda: self.newest() > step, f"a state after step {step}", PATIENCE)

    def open_gate(self, step: int) -> None:
        """Let the training go on up to this step."""
        (self.directory / "gate.new").write_text(str(step))
        (self.directory / "gate.new").rename(self.directory / "gate")


class Job:
    """One script on many hosts, and the node that each host has now."""

    def __init__(self, framework: str, lab: Lab, directory: Path, name: str, *words: object) -> None:
        self.python = Peer(framework, directory).bin / "python"
        self.trained = (script(name), *words)
        self.nodes = Nodes(lab, directory)
        self.on: dict[int, Node] = {}

    def start(self, numbers: Iterable[int], *flags: object) -> None:
        for number in numbers:
            self.on[number] = self.nodes.start(number, "--python", self.python, *flags, *self.trained)

    def finish(self) -> None:
        """Every node ends well and leaves nobody."""
        for node in self.on.values():
            assert node.wait(PATIENCE) == 0, node.err
            node.assert_nobody_left()

    def story(self) -> list[str]:
        """What every node said last, for whoever must find out why a test failed."""
        return [f"--- {node.directory.name}, stderr\n{node.err[-3000:]}" for node in self.nodes.started]

    def results(self) -> dict[int, list[str]]:
        """What each rank told as its results; a rank may have moved from host to host."""
        told: dict[int, list[str]] = {}
        for log in sorted(self.nodes.directory.glob("host*/log/workerlog.*")):
            told.setdefault(int(log.suffix[1:]), []).extend(results(log.read_text()))
        return told
