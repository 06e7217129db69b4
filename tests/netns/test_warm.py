"""Warm workers on many machines: imports while the nodes still wait for each other, and every guarantee as ever."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.launching import SHEPHERD, children, name_of
from tests.netns.jobs import LONG_LEASE

FORKED = "warm: workers are forked from one interpreter, which imported decimal"


def test_imports_go_on_while_nodes_wait_for_each_other(job):
    first = job.node(1, "--nnodes 2 --nproc_per_node 2 --warm decimal --max_restart 1")
    first.wait_for(FORKED)
    second = job.node(2, "--nnodes 2 --nproc_per_node 2 --warm decimal --max_restart 1")
    before = job.round(0, 4)

    job.fail(3)

    assert job.round(1, 4) == before
    job.finish()
    assert job.codes() == [0, 0]
    for node in (first, second):
        assert node.err.count("flota: warm:") == 1
        node.assert_nobody_left()


def test_interpreters_are_parked_while_nodes_wait_for_each_other(job):
    (job.stage / "jax.py").write_text("import os\nATTEMPT = 0\n")
    words = f"--nnodes 2 --nproc_per_node 2 --warm jax --max_restart 1 --env PYTHONPATH={job.stage}"
    first = job.node(1, words)
    first.wait_for("2 of 2 interpreters are ready for the next start")

    second = job.node(2, words)

    job.round(0, 4)
    job.fail(0)
    job.round(1, 4)
    job.finish()
    assert job.codes() == [0, 0]
    for node in (first, second):
        node.assert_nobody_left()


@pytest.mark.parametrize("victim", [1, 2])
def test_a_killed_node_is_missed_at_once(job, victim):
    """Its shepherd is no fork of it, but somebody says its last word all the same."""
    nodes = job.start([1, 2, 3], "--nnodes 3 --warm decimal", lease=LONG_LEASE)
    job.round(0, 3)

    nodes[victim].process.kill()

    assert job.codes() == [-9 if number == victim else 75 for number in range(3)]
    for node in nodes:
        node.assert_nobody_left()


def test_the_next_round_is_warm_on_all_hosts_after_any_failure(job):
    """A shepherd, then a whole node: what is parked on the hosts stays, and a node that comes back imports first."""
    words = "--nnodes 3 --warm decimal --max_restart 2"
    nodes = job.start([1, 2, 3], words)
    job.round(0, 3)
    [shepherd] = [pid for pid in children(nodes[1].process.pid) if name_of(pid) == SHEPHERD and children(pid)]

    os.kill(shepherd, signal.SIGKILL)
    job.round(1, 3)
    nodes[1].process.kill()
    nodes[1].process.wait()
    back = job.node(2, words)

    job.round(2, 3)
    job.finish()
    assert job.codes() == [0, -signal.SIGKILL, 0, 0]
    back.wait_for(FORKED)
    for node in (*nodes, back):
        assert "cold" not in node.err and "parked interpreter exited" not in node.err
        node.assert_nobody_left()


def test_a_newcomer_imports_before_a_running_job_stops_for_it(job):
    (job.stage / "slow.py").write_text(
        "import os, time\nwhile os.uname().nodename == 'host3' and not os.path.exists(os.environ['STAGE'] + '/gate'):\n"
        "    time.sleep(0.02)"
    )
    words = f"--nnodes 2:3 --elastic_timeout 0.5 --warm slow --env PYTHONPATH={job.stage}"
    job.start([1, 2], words)
    first = job.settle(2).number

    third = job.node(3, words)
    job.wait_for_records(1, '"warming":true')
    time.sleep(0.5)  # in which the coordinator would begin another round
    imported_at = time.monotonic()
    (job.stage / "gate").touch()

    number, hosts = job.settle(3, after=first)
    assert hosts == ["host1", "host2", "host3"]
    assert min(note["at"] for note in job.notes("worker", number).values()) > imported_at
    job.finish()
    assert job.codes() == [0, 0, 0]
    assert "cold" not in third.err
