"""A job of many nodes on this machine: a real flota that serves the master, and one load process for all others."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import environments
from bench.harness import FLOTA, directory, free_port, launch
from bench.processes import Broken, running, wait_until

NODES = Path(__file__).resolve().parent / "nodes"
WORKERS = 8  # per node; those of the master's node sleep


class JoinTimes(NamedTuple):
    """When the nodes started and had joined, by the machine's clock, and the master's pid."""

    master: int
    began: float
    last_began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def after_last(self) -> float:
        """From the start of the last node, after all others have joined, until all nodes have the roster."""
        return self.ended - self.last_began


@contextmanager
def large_job(nodes: int, *words: str) -> Iterator[JoinTimes]:
    """A job whose nodes have joined, and run until the block ends; `words` are arguments of the load process."""
    allow_connections()
    port = free_port()
    with directory() as here, directory() as beside:
        job = ("--nnodes", nodes, "--master", f"127.0.0.1:{port}")
        master = launch(FLOTA, WORKERS, *job, "--no-python", "sleep", 3600)
        others = [environments.PYTHON, NODES / "many_nodes.py", port, nodes - 1, *words]
        with running(master, here) as process, running([*map(str, others)], beside, subprocess.PIPE) as load:
            times = first_line(load, beside)
            ended = max(times["ended"], round_began(here))
            yield JoinTimes(process.pid, times["began"], times["last_began"], ended)


def first_line(process: subprocess.Popen[bytes], here: Path) -> dict[str, float]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise Broken(f"no times: {(here / 'stderr').read_text()}")
    times: dict[str, float] = json.loads(line)
    return times


def round_began(here: Path) -> float:
    """When the master's own node had the roster, from its event log: it cannot be asked."""

    def times() -> list[float]:
        lines = [line for file in (here / "log").glob("events.*.jsonl") for line in file.read_text().splitlines()]
        return [event["monotonic"] for event in map(json.loads, lines) if event["event"] == "round_started"]

    wait_until(lambda: bool(times()), "the round of the master's own node")
    return times()[0]


def allow_connections() -> None:
    """A master has two connections per node."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
