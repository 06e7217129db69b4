"""Hangs of real DDP training, and quiet work that is none."""

from __future__ import annotations

import json
import os

import pytest

from tests.lab import Lab
from tests.launching import wait_until

from .conftest import Peer, script
from .over_hosts import MASTER, PATIENCE, Job, needs_lab

SOAK = bool(os.environ.get("FLOTA_SOAK"))
TIMEOUT = 5.0
KINDS = {  # where the culprit stands, and the others
    "sleep": ("asleep in hang at ddp_hangs.py:", "in backward at ddp_hangs.py:"),
    "server": ("waiting on a socket in hang at ddp_hangs.py:", "in backward at ddp_hangs.py:"),
    "loader": ("in next(loader) at ddp_hangs.py:", "in backward at ddp_hangs.py:"),
    "barrier": ("in barrier at ddp_hangs.py:", "in backward at ddp_hangs.py:"),
}

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def start(flota, workers, *words):
    python = Peer("torch", flota.directory).bin / "python"
    return flota.start(
        "--python",
        python,
        "--nproc_per_node",
        workers,
        "--hang-timeout",
        TIMEOUT,
        "--grace",
        2,
        script("ddp_hangs.py"),
        *words,
    )


def steps(directory):
    return sum("step 2\n" in log.read_text() for log in directory.glob("log/workerlog.?"))


@pytest.mark.parametrize("kind", KINDS if SOAK else ["loader", "server"])
def test_the_odd_rank_is_named(flota, kind):
    running = start(flota, 3, kind, 1)
    wait_until(lambda: steps(flota.directory) == 3, "three steps of three ranks", PATIENCE)
    code = running.wait(PATIENCE)
    _, err = running.output()

    own, others = KINDS[kind]
    assert code == 124, err
    assert err.count("the job is hanging") == 1
    assert "rank 1 blocks the others" in err
    assert f"2 of 3 ranks: {others}" in err
    assert f"rank 1: {own}" in err
    [failure] = json.loads((flota.directory / "log" / "report.json").read_text())["failures"]
    assert (failure["rank"], failure["cause"]) == (1, "hung")
    if kind == "loader":
        stacks = (flota.directory / "log" / "stacks.0.txt").read_text()
        assert "its child " in stacks and "__getitem__" in stacks


@pytest.mark.parametrize("kind", ["evaluation", "checkpoint", "compile"] if SOAK else ["compile"])
def test_silent_work_is_not_a_hang(flota, kind):
    running = start(flota, 2, kind, -1)
    code = running.wait(2 * PATIENCE)
    _, err = running.output()

    assert code == 0, err
    assert "the job is hanging" not in err
    assert "RESULT trained" in (flota.directory / "log" / "workerlog.1").read_text()


@needs_lab
def test_the_odd_rank_is_named_on_every_host(tmp_path):
    with Lab(3) as lab:
        job = Job("torch", lab, tmp_path, "ddp_hangs.py", "sleep", 1)
        flags = ("--nnodes", 3, "--master", MASTER, "--hang-timeout", TIMEOUT, "--grace", 2)
        job.start([1, 2, 3], *flags)

        codes = [node.wait(PATIENCE) for node in job.on.values()]

        assert codes == [124, 124, 124], job.story()
        for node in job.on.values():
            assert "rank 1 on host2 blocks the others" in node.err
            assert "2 of 3 ranks: in backward at ddp_hangs.py:" in node.err
            assert node.err.count("the job is hanging") == 1
            node.assert_nobody_left()
