"""Warm workers on many machines: imports while the nodes still wait for each other, and every guarantee as ever."""

from __future__ import annotations

import pytest

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
