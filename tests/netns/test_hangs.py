"""Hangs of a job on three hosts: all stacks of all nodes at one moment, and the same suspect on every screen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from flota.host.unix_socket import address_of
from tests.launching import COMMAND, WORKERS, environment, slow_spy
from tests.netns.jobs import HTTP

TIMEOUT = 4.0
PATIENCE = 150.0  # seconds: six nodes and their py-spies may share two cores. How soon a hang is found, bench/ measures
CULPRIT = 3
SPY = Path(sys.executable).parent / "py-spy"
FLAGS = ["--nnodes", 3, "--nproc_per_node", 2, "--hang-timeout", TIMEOUT, "--grace", 1]
KINDS = {
    "sleep": "asleep in hang",
    "deadlock": "waiting for a lock in hang",
    "gil": "holding the GIL in hang",
    "busy": "busy in hang",
    "stopped": "stopped by a signal, in hang",
    "pipe": "blocked on a pipe in hang",
    "server": "waiting on a socket in hang",
    "left": "exited with code 0 after",
}


HUNG = "rank 3 on host2 hung: detected after"
LEFT = "rank 3 on host2 exited too early: exit code 0 after"


def start(job, kind, *flags, how=()):
    """Three nodes of one job."""
    words = [*FLAGS, *flags, *job.words, WORKERS / "hangs.py", kind, CULPRIT, *how]
    return [job.nodes.start(host, *words, env={"STAGE": str(job.stage)}) for host in (1, 2, 3)]


def wait_for_hang(nodes):
    """Until their workers have come to the step after which one hangs."""
    for node, ranks in zip(nodes, ((0, 1), (2, 3), (4, 5)), strict=True):
        node.wait_for_file(*(f"step.0.{rank}.3" for rank in ranks))


@pytest.mark.parametrize("kind", KINDS)
def test_the_rank_is_named_on_every_node(jobs, kind):
    started = [start(job, kind) for job in jobs]
    for nodes in started:
        wait_for_hang(nodes)
    steps = [path.stat().st_mtime for node in chain(*started) for path in node.directory.glob("step.0.*.3")]
    for node in chain(*started):
        node.wait_for("the job is hanging: no output for ", timeout=PATIENCE)
    took = time.time() - max(steps)

    assert [job.codes(PATIENCE) for job in jobs] == [[124, 124, 124]] * 2
    assert took > 0.7 * TIMEOUT
    for node in chain(*started):
        assert node.err.count("the job is hanging") == 1
        assert "rank 3 on host2 blocks the others" in node.err
        assert f"rank 3 on host2: {KINDS[kind]}" in node.err
        assert (LEFT if kind == "left" else HUNG) in node.err
        assert "stacks: in the log directory of each node, stacks.0.HOST.txt" in node.err
        stacks = node.directory / "log" / f"stacks.0.{node.host.name}.txt"
        assert "main (" in stacks.read_text()
    for _, second, _ in started:
        assert "rank 2 (pid" in (second.directory / "log" / "stacks.0.host2.txt").read_text()


def test_a_hang_is_restarted_everywhere(jobs):
    started = [start(job, "sleep", "--max_restart", 1) for job in jobs]

    assert [job.codes(PATIENCE) for job in jobs] == [[0, 0, 0]] * 2
    for node in chain(*started):
        assert HUNG in node.err and "restarting (1 of 1)" in node.err
        assert node.err.count("the job is hanging") == 1


def test_a_hang_after_a_restart_tells_its_own_attempt_step_and_time(jobs):
    started = [start(job, "always", "--max_restart", 1, how=["beats"]) for job in jobs]

    assert [job.codes(PATIENCE) for job in jobs] == [[124, 124, 124]] * 2
    for nodes in started:
        [report] = [json.loads(path.read_text()) for node in nodes for path in node.directory.glob("log/report.json")]
        [failure] = report["failures"]
        assert (failure["rank"], failure["attempt"], failure["last_step"]) == (CULPRIT, 1, 3)
        assert abs(failure["time"] - time.time()) < 60
    for node in chain(*started):
        assert node.err.count("the job is hanging: no step for ") == 2
        assert "attempt 1, last step 3" in node.err


def test_by_hand_all_ranks_are_seen_from_any_node(job):
    """Where nobody watches for hangs."""
    words = ["--nnodes", 3, "--nproc_per_node", 2, *job.words, WORKERS / "hangs.py", "sleep", CULPRIT]
    nodes = [job.nodes.start(host, *words, env={"STAGE": str(job.stage)}) for host in (1, 2, 3)]
    wait_for_hang(nodes)

    assert ask_as_somebody_else(nodes[0]) == "nothing\n"
    shown = [ask(node) for node in nodes]

    for told, here in zip(shown, ((0, 1), (2, 3), (4, 5)), strict=True):
        assert "rank 3 on host2: asleep in hang at hangs.py:" in told
        assert "if this is a hang: rank 3 on host2 blocks the others" in told
        assert [rank for rank in range(6) if f"rank {rank} (pid " in told] == list(here)
    for node in nodes:
        assert "MainThread" in (node.directory / "log" / f"stacks.0.{node.host.name}.txt").read_text()
        assert node.process.poll() is None
        node.process.terminate()
    assert job.codes() == [143, 143, 143]


def ask(node):
    command = [COMMAND, "stack"]
    asking = node.host.popen(command, cwd=node.directory, env=environment(), stdout=subprocess.PIPE, text=True)
    told, _ = asking.communicate(timeout=60)
    assert asking.returncode == 0
    return told


def ask_as_somebody_else(node):
    """The same question, from a process of another user's."""
    script = (
        "import socket, sys\nasker = socket.socket(socket.AF_UNIX)\nasker.connect(sys.argv[1].replace('@', chr(0)).encode())\n"
        "print(asker.recv(99).decode() or 'nothing')"
    )
    address = address_of(node.process.pid).decode().replace("\0", "@")
    command = ["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/env", "python3", "-c", script, address]
    asking = node.host.popen(command, env={"PATH": "/usr/bin:/bin"}, cwd="/", stdout=subprocess.PIPE, text=True)
    return asking.communicate(timeout=60)[0]


def test_at_level_0_the_node_of_the_suspect_leaves(jobs):
    flags = ["--nnodes", "2:3", "--nproc_per_node", 2, "--hang-timeout", TIMEOUT, "--grace", 1]
    flags += ["--elastic_level", 0, "--elastic_timeout", 5]
    for job in jobs:
        env = {"STAGE": str(job.stage), "HANG_SIZE": "6"}
        for host in (1, 2, 3):
            job.nodes.start(host, *flags, *job.words, WORKERS / "hangs.py", "sleep", CULPRIT, env=env)

    for job in jobs:
        assert sorted(job.codes(PATIENCE)) == [0, 0, 124]
        [left] = [node for node in job.nodes.started if node.process.returncode == 124]
        assert f"rank 3 on {left.host.name} hung: detected after" in left.err
        for node in job.nodes.started:
            if node is not left:
                assert f"{left.host.name} left after rank 3 hung; starting a new round" in node.err


@pytest.fixture
def blinded(job):
    """Host 2 without py-spy."""
    with spy_of(job.lab.host(2), "/dev/null"):
        yield job


@contextmanager
def spy_of(host, program):
    assert host.popen(["mount", "--bind", program, SPY]).wait() == 0
    try:
        yield
    finally:
        assert host.popen(["umount", SPY]).wait() == 0


@pytest.mark.parametrize("kind", ["sleep", "left"])
def test_a_node_that_cannot_read_stacks_aborts_its_workers_for_them(blinded, kind):
    nodes = start(blinded, kind, how=["beats", "notices"] if kind == "sleep" else ["beats"])

    assert blinded.codes(PATIENCE) == [124, 124, 124]
    for node in nodes:
        assert "rank 3 on host2 blocks the others" in node.err
        assert node.err.count("the job is hanging: no step for ") == 1
        assert ", last step 3" in node.err
        assert kind == "left" or "5 of 6 ranks: waiting on a socket in receive at hangs.py:" in node.err
    assert "cannot read stacks" in nodes[1].err and "cannot read stacks" not in nodes[0].err
    assert "receive (" in (nodes[1].directory / "log" / "stacks.0.host2.txt").read_text()


@pytest.mark.parametrize("job", [HTTP], indirect=True)
def test_output_that_comes_while_stacks_are_taken_saves_the_job(job):
    copied, slow = job.stage / "py-spy", job.stage / "slow-spy"
    shutil.copy(SPY, copied)
    slow.write_text(f"#!/bin/sh\n{slow_spy(job.stage, copied)}\n")
    slow.chmod(0o755)
    words = ["--nnodes", 2, "--hang-timeout", 1, "--native-stacks", *job.words, WORKERS / "speaks_late.py"]

    with spy_of(job.lab.host(2), slow):
        nodes = [job.nodes.start(host, *words, env={"STAGE": str(job.stage)}) for host in (1, 2)]

        assert job.codes(PATIENCE) == [0, 0]
    assert not any("the job is hanging" in node.err for node in nodes)
    assert (job.stage / "dumped").exists()


def test_packets_dropped_on_the_workers_port_blame_no_rank(job):
    nodes = start(job, "dropped")
    wait_for_hang(nodes)
    port = int((nodes[0].directory / "step.0.0.3").read_text())
    job.lab.shape(2, dropped_port=port)
    try:
        (job.stage / "dropped").touch()

        assert job.codes(PATIENCE) == [124, 124, 124]
    finally:
        job.lab.unshape(2)
    for node in nodes:
        assert (
            "no rank stands out: all are waiting for each other; check the network between host1 and host2" in node.err
        )
        assert node.err.count("the job is hanging") == 1


@pytest.mark.parametrize("kind", ["compile", "children", "checkpoint", "evaluation"])
def test_one_rank_at_work_is_enough(jobs, kind):
    """On the first of three hosts; those on the others wait for it."""
    for job in jobs:
        words = ["--nnodes", 3, "--hang-timeout", 2, *job.words, WORKERS / "works_quietly.py", kind, 7]
        for host in (1, 2, 3):
            job.nodes.start(host, *words, env={"STAGE": str(job.stage)})

    for job in jobs:
        assert job.codes(PATIENCE) == [0, 0, 0]
        assert not any("the job is hanging" in node.err for node in job.nodes.started)
