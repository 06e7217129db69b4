"""Jobs of MIN to MAX nodes: they begin, grow and shrink by the rule, and end once."""

from __future__ import annotations

import signal
import time

import pytest

from tests.lab.nodes import Node
from tests.netns.jobs import HTTP, Job

SOON = "--elastic_timeout 0.5"


def terminate(*nodes: Node) -> None:
    for node in nodes:
        node.process.send_signal(signal.SIGTERM)


def attempts(job: Job, number: int) -> set[str]:
    return {note["attempt"] for note in job.notes("worker", number).values()}


def say(nodes: list[Node], *texts: str) -> bool:
    return all(text in node.err for node in nodes for text in texts)


# The beginning.


def test_at_max_the_job_begins_at_once(job):
    job.start([1, 2, 3], "--nnodes 2:3 --elastic_timeout 600")

    assert job.settle(3) == (0, ["host1", "host2", "host3"])
    job.finish()
    assert job.codes() == [0, 0, 0]


def test_with_min_nodes_the_job_starts_when_no_node_has_joined_for_a_while(jobs):
    words = "--nnodes 2:4 --elastic_timeout 8"
    for job in jobs:
        job.start([1, 2], words)
    for job in jobs:
        job.wait_for_records(2)
    time.sleep(0.8)  # of the time that is given to others
    started = []
    for job in jobs:
        started.append(time.monotonic())
        job.node(3, words)

    for job, third in zip(jobs, started, strict=True):
        assert job.settle(3) == (0, ["host1", "host2", "host3"])
        assert min(note["at"] for note in job.notes("worker", 0).values()) - third > 8
        job.finish()
        assert job.codes() == [0, 0, 0]


# Growing and shrinking.


def test_a_node_that_joins_starts_a_new_round_in_which_the_others_keep_their_ranks(job):
    early, late = ([1, 3], 2) if not job.etcd else ([2, 3], 1)
    nodes = job.start(early, f"--nnodes 2:3 {SOON}")
    before = job.settle(2)

    job.node(late, f"--nnodes 2:3 {SOON}")

    after = job.settle(3)
    assert after.hosts == [*before.hosts, f"host{late}"]
    assert len(job.notes("stopped", before.number)) == 2
    assert attempts(job, after.number) == {"0"}
    assert say(nodes, f"host{late} joined; starting a new round")
    job.finish()
    assert job.codes() == [0, 0, 0]


@pytest.mark.parametrize("leaver", [2, 3])
def test_a_node_that_is_asked_to_stop_leaves_and_the_others_continue(job, leaver):
    nodes = job.start([1, 2, 3], f"--nnodes 2:3 {SOON}")
    before = job.settle(3)
    rest = [node for node in nodes if node is not nodes[leaver - 1]]

    terminate(nodes[leaver - 1])

    after = job.settle(2, before.number)
    assert after.hosts == [host for host in before.hosts if host != f"host{leaver}"]
    assert nodes[leaver - 1].wait() == 143
    assert attempts(job, after.number) == {"0"}
    job.finish()
    assert job.codes() == [0 if node in rest else 143 for node in nodes]
    assert say(rest, f"host{leaver} left; starting a new round")
    assert say([nodes[leaver - 1]], "stopped by SIGTERM")


def test_the_coordinators_node_may_leave(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master("etcd"))
    first = job.node(2, f"--nnodes 2:3 {SOON}")
    job.wait_for_records(1)  # who comes first has the coordinator
    rest = job.start([1, 3], f"--nnodes 2:3 {SOON}")
    before = job.settle(3)

    terminate(first)

    assert job.settle(2, before.number).hosts == [host for host in before.hosts if host != "host2"]
    assert first.wait() == 143
    job.finish()
    assert job.codes() == [143, 0, 0]
    assert say(rest, "host2 left; starting a new round")


def test_a_lost_node_is_done_without(job):
    nodes = job.start([1, 2, 3], f"--nnodes 2:3 {SOON}")
    before = job.settle(3)

    nodes[1].process.kill()

    after = job.settle(2, before.number)
    assert after.hosts == [host for host in before.hosts if host != "host2"]
    assert attempts(job, after.number) == {"0"}
    job.finish()
    assert job.codes() == [0, -9, 0]
    assert say([nodes[0], nodes[2]], "host2 was lost; starting a new round")


def test_a_job_goes_from_one_node_to_two_and_back(job):
    words = f"--nnodes 1:2 {SOON}"
    job.node(1, words)
    one = job.settle(1)

    second = job.node(2, words)
    two = job.settle(2)
    terminate(second)

    again = job.settle(1, two.number)
    assert (one.hosts, two.hosts, again.hosts) == (["host1"], ["host1", "host2"], ["host1"])
    job.finish()
    assert job.codes() == [0, 143]


def test_one_node_more_than_max_is_refused(job):
    nodes = job.start([1, 2], f"--nnodes 1:2 {SOON}")
    full = job.settle(2)

    third = job.node(3, f"--nnodes 1:2 {SOON}")

    assert third.wait() == 2
    assert say([third], "the job refused this node: the job already has all 2 nodes")
    for node in nodes:
        node.wait_for("host3 was refused: the job already has all 2 nodes")
    job.finish()
    assert job.codes() == [0, 0, 2]
    assert job.rounds()[-1] == full.number


# The end.


def test_if_all_nodes_are_asked_to_stop_the_job_ends_without_another_round(job):
    nodes = job.start([1, 2, 3], f"--nnodes 1:3 {SOON}")
    full = job.settle(3)

    for node in reversed(nodes):  # as a scheduler does, one after the other
        terminate(node)
        time.sleep(0.1)

    assert job.codes() == [143, 143, 143]
    assert job.rounds()[-1] == full.number
    assert say(nodes, "stopped by SIGTERM")


def test_a_job_that_would_fall_below_min_stops_as_a_whole(job):
    nodes = job.start([1, 2], f"--nnodes 2:3 {SOON}")
    job.settle(2)

    terminate(nodes[1])

    assert job.codes() == [143, 143]
    assert job.rounds() == [0]
    assert say(nodes[:1], "host2 was asked to stop")


def test_the_serving_node_stops_the_job_when_it_is_asked_to_stop(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    nodes = job.start([1, 2, 3], f"--nnodes 1:3 {SOON}")
    full = job.settle(3)

    terminate(nodes[0])

    assert job.codes() == [143, 143, 143]
    assert job.rounds()[-1] == full.number
    assert say(nodes[1:], "host1 was asked to stop")


def test_ctrl_c_on_one_node_ends_the_job_on_all(job):
    nodes = job.start([1, 2, 3], f"--nnodes 1:3 {SOON}")
    full = job.settle(3)

    nodes[2].process.send_signal(signal.SIGINT)

    assert job.codes() == [130, 130, 130]
    assert job.rounds()[-1] == full.number
    assert say(nodes, "stopped by SIGINT")


def test_below_min_the_job_waits_and_then_ends_with_75(jobs):
    for job in jobs:
        job.start([1, 2], f"--nnodes 2:3 {SOON} --join-timeout 8")
    for job in jobs:
        job.settle(2)

        job.nodes.started[1].process.kill()

    for job in jobs:
        assert job.codes() == [75, -9]
        assert say(job.nodes.started[:1], "host2 was lost; starting a new round")
        assert say(job.nodes.started[:1], "nodes did not join in time: 1 node joined (need 2, up to 3): host1")
        assert job.rounds() == [0]


def test_below_min_a_new_node_lets_the_job_go_on(job):
    nodes = job.start([1, 2], f"--nnodes 2:3 {SOON}")
    job.settle(2)
    nodes[1].process.kill()
    nodes[0].wait_for("host2 was lost; starting a new round")

    job.node(3, f"--nnodes 2:3 {SOON}")

    assert job.settle(2, after=0).hosts == ["host1", "host3"]
    job.finish()
    assert job.codes() == [0, -9, 0]


# Levels.


def test_at_level_0_a_failing_node_leaves_and_the_others_go_on(job):
    nodes = job.start([1, 2, 3], f"--nnodes 2:3 {SOON} --elastic_level 0")
    before = job.settle(3)
    rank = before.hosts.index("host2")

    job.fail(rank, 9)

    assert job.settle(2, before.number).hosts == [host for host in before.hosts if host != "host2"]
    assert nodes[1].wait() == 9
    assert say([nodes[1]], f"rank {rank} on host2 failed first: exit code 9")
    job.finish()
    assert job.codes() == [0, 9, 0]
    assert say([nodes[0], nodes[2]], f"host2 left after rank {rank} failed; starting a new round")


def test_at_level_0_a_failure_that_leaves_too_few_is_waited_for(jobs):
    for job in jobs:
        job.start([1, 2], f"--nnodes 2:3 {SOON} --elastic_level 0 --join-timeout 8")
    for job in jobs:
        job.settle(2)

        job.fail(1, 9)

    for job in jobs:
        assert job.codes() == [75, 9]
        assert say(job.nodes.started[:1], "nodes did not join in time: 1 node joined (need 2, up to 3): host1")
        assert job.rounds() == [0]


@pytest.mark.parametrize("words", ["--nnodes 2:3", "--nnodes 2:3 --elastic_level 1", "--nnodes 3 --elastic_level 1"])
def test_at_level_1_all_start_again_in_place_and_it_counts(job, words):
    nodes = job.start([1, 2, 3], f"{words} {SOON} --max_restart 1")
    before = job.settle(3)
    job.fail(1, 9)
    after = job.settle(3, before.number)
    assert after.hosts == before.hosts
    assert attempts(job, after.number) == {"1"}

    job.fail(2, 8)

    assert job.codes() == [8, 8, 8]
    assert job.rounds()[-1] == after.number
    first = f"rank 1 on {before.hosts[1]} failed: exit code 9"
    second = f"rank 2 on {before.hosts[2]} failed first: exit code 8"
    assert say(nodes, first, "; restarting (1 of 1)", second)
