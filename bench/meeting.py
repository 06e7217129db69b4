"""A job of many nodes on this machine: a real flota that serves as master, and one load process that is all others."""

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
WORKERS = 8  # a node; the master's own sleep


class Met(NamedTuple):
    """When nodes met, by the machine's clock, and the master's pid."""

    master: int
    began: float
    last_began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def after_last(self) -> float:
        """From the start of the last node, all others having joined, to the roster at all of them."""
        return self.ended - self.last_began


@contextmanager
def meeting(nodes: int, *words: str) -> Iterator[Met]:
    """A job whose nodes have met, and live on until the block ends; `words` are the load process's."""
    allow_connections()
    port = free_port()
    with directory() as here, directory() as beside:
        job = ("--nnodes", nodes, "--master", f"127.0.0.1:{port}")
        master = launch(FLOTA, WORKERS, *job, "--no-python", "sleep", 3600)
        others = [environments.PYTHON, NODES / "many_nodes.py", port, nodes - 1, *words]
        with running(master, here) as process, running([*map(str, others)], beside, subprocess.PIPE) as load:
            said = first_line(load, beside)
            ended = max(said["ended"], round_began(here))
            yield Met(process.pid, said["began"], said["last_began"], ended)


def first_line(process: subprocess.Popen[bytes], here: Path) -> dict[str, float]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise Broken(f"no times: {(here / 'stderr').read_text()}")
    said: dict[str, float] = json.loads(line)
    return said


def round_began(here: Path) -> float:
    """When the master's own node had the roster; by its own word, since nobody can ask it."""

    def times() -> list[float]:
        lines = [line for file in (here / "log").glob("events.*.jsonl") for line in file.read_text().splitlines()]
        return [event["monotonic"] for event in map(json.loads, lines) if event["event"] == "round_started"]

    wait_until(lambda: bool(times()), "the round of the master's own node")
    return times()[0]


def allow_connections() -> None:
    """A master has two connections a node."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
