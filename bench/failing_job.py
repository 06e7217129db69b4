"""A real training on hosts of a network lab, into which failures are injected from outside.

A node that has died is started again on its host, as Kubernetes or Slurm would do."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.lab import Lab

from bench.environments import environ
from bench.processes import Broken, children

FIRST_STEP = 120.0  # seconds: all import torch at the same time
OUTAGE = 8.0  # seconds for which a cable is cut or a link is slow
# See warm.py; and without a token, states do not cross to other nodes.
VARIABLES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "FLOTA_TOKEN": "of-this-benchmark-only"}


class Progress(NamedTuple):
    """The last step, and when it was done."""

    step: int
    at: float


class FailingJob:
    """`command`: of the node on this host."""

    def __init__(self, lab: Lab, here: Path, hosts: range, command: Callable[[int], list[str]], ranks: int) -> None:
        self._lab, self._here, self._command = lab, here, command
        self._ranks = ranks
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._killed: set[int] = set()  # hosts whose node died because of a failure here
        self._undo: list[tuple[float, Callable[[], object]]] = []
        self.lost = 0  # nodes that ended by themselves: the job is lost
        for host in hosts:
            self._start(host)

    def _start(self, host: int) -> None:
        directory = self._here / f"host{host}"
        directory.mkdir(exist_ok=True)
        with (directory / "output").open("ab") as output:
            self._nodes[host] = self._lab.host(host).popen(
                self._command(host), cwd=directory, env={**environ(), **VARIABLES}, stdout=output, stderr=output
            )

    def progress(self) -> Progress:
        steps = self._here / "steps"
        lines = steps.read_text().splitlines() if steps.exists() else []
        whole = [line.split() for line in lines if line.count(" ") == 2]
        return Progress(int(whole[-1][0]), float(whole[-1][1])) if whole else Progress(0, 0.0)

    def losses(self) -> dict[int, set[str]]:
        """Of each step, which may have been done several times."""
        found: dict[int, set[str]] = {}
        for line in (self._here / "steps").read_text().splitlines():
            if line.count(" ") == 2:  # otherwise rank 0 was killed while it wrote
                step, _, loss = line.split()
                found.setdefault(int(step), set()).add(loss)
        return found

    def wait_for_step(self, step: int) -> Progress:
        give_up = time.monotonic() + FIRST_STEP
        while self.progress().step < step:
            if time.monotonic() > give_up:
                raise Broken(f"no step {step} after {FIRST_STEP:.0f} s: {self.output()[-2000:]}")
            self.run_for(0.2)
        return self.progress()

    def run_for(self, seconds: float) -> None:
        """Let it train, and start nodes that were killed again."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for at, undo in [one for one in self._undo if time.monotonic() >= one[0]]:
                undo()
                self._undo.remove((at, undo))
            for host, node in list(self._nodes.items()):
                if node.poll() is not None:
                    self.lost += host not in self._killed
                    self._killed.discard(host)
                    self._start(host)
            time.sleep(0.05)

    def fail(self, kind: str, chance: random.Random) -> str:
        """Inject one failure. Returns where."""
        host, pid = self._worker(chance)
        if kind == "worker":
            _kill(pid)
        elif kind == "hang":
            _kill(pid, signal.SIGSTOP)
        elif kind == "shepherd":
            _kill(_parent(pid))
        elif kind == "node":
            self._killed.add(host)
            _kill(self._nodes[host].pid)
        elif kind == "host":
            self._killed.add(host)
            self._lab.crash(host)
        elif kind == "cable":
            self._lab.cut(host)
            self._killed.add(host)  # its node may give up
            self._undo.append((time.monotonic() + OUTAGE, lambda: self._lab.heal(host)))
        else:
            self._lab.shape(host, delay_ms=5)
            self._undo.append((time.monotonic() + OUTAGE, lambda: self._lab.unshape(host)))
        return f"{kind} on host{host}"

    def _worker(self, chance: random.Random) -> tuple[int, int]:
        name, pid = (self._here / f"pid.{chance.randrange(self._ranks)}").read_text().split()
        return int(name.removeprefix("host")), int(pid)

    def output(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self._here.glob("host*/output")))

    def stop(self) -> None:
        for _, undo in self._undo:
            undo()
        for node in self._nodes.values():
            for pid in (node.pid, *children(node.pid)):
                _kill(pid)
            node.wait()
        for host in self._nodes:
            self._lab.crash(host)  # what torchrun's agents leave


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _kill(pid: int, number: int = signal.SIGKILL) -> None:
    if pid > 1:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
