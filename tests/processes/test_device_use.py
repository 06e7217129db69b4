"""How busy devices are, from a program that stands in for the driver's."""

from __future__ import annotations

import os

import pytest

from flota.control.client import NodeClient
from flota.errors import CannotAsk
from tests.launching import children, wait_until


@pytest.fixture
def job(flota):
    """A job with two devices, whose driver's program runs these lines. Each run of it leaves a line in `asked`."""

    def start(lines: str):
        program = flota.directory / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho $$ >> {flota.directory}/asked\n{lines}\n")
        program.chmod(0o755)
        env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0,1"}
        return flota.start("--nproc_per_node", 2, "sleeps.py", env=env)

    return start


def asked(flota) -> list[str]:
    path = flota.directory / "asked"
    return path.read_text().split() if path.exists() else []


def use_of(client: NodeClient) -> list[float | None]:
    return [rank.device_use for rank in client.status().node.ranks]


def reach(running) -> NodeClient:
    client = NodeClient(running.pid)
    wait_until(lambda: answers(client), "the node")
    return client


def answers(client: NodeClient) -> bool:
    try:
        return len(client.status().node.ranks) == 2
    except CannotAsk:
        return False


def test_the_driver_is_asked_only_while_somebody_looks(flota, job):
    running = job("printf '0, GPU-a, 35\\n1, GPU-b, 90\\n'")
    log = flota.directory / "log" / "workerlog.1"
    wait_until(log.exists, "the workers")
    assert asked(flota) == []

    client = reach(running)

    wait_until(lambda: use_of(client) == [35.0, 90.0], "the use of both devices")
    client.close()
    assert len(asked(flota)) <= 3


def test_a_driver_that_does_not_answer_costs_nothing_but_the_number(flota, job):
    running = job("exec sleep 1000")
    client = reach(running)
    wait_until(lambda: use_of(client) and asked(flota), "the question")
    (stuck,) = asked(flota)

    wait_until(lambda: not os.path.exists(f"/proc/{stuck}"), "its end", timeout=30)

    assert use_of(client) == [None, None] and len(asked(flota)) == 1
    client.close()
    assert running.pid and children(running.pid)
