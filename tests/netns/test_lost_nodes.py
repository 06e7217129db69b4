"""A node is lost: killed, crashed, or cut off. The others know in time, and do what the user asked for."""

from __future__ import annotations

import signal

import pytest

from tests.lab.nodes import Node
from tests.launching import wait_until
from tests.netns.jobs import LONG_LEASE, WORKERS, Job, last_words

CLINGS = WORKERS / "clings.py"


def kill(node: Node) -> None:
    """Kill the node's own process; its shepherd lives."""
    node.process.kill()


# Fixed size, without restarts: the job ends.


@pytest.mark.parametrize("victim", [2, 3])
def test_a_killed_node_is_missed_at_once(job, victim):
    nodes = job.start([1, 2, 3], "--nnodes 3 --nproc_per_node 2", lease=LONG_LEASE)
    job.round(0, 6)

    kill(nodes[victim - 1])

    assert job.codes() == [-9 if node is nodes[victim - 1] else 75 for node in nodes]
    assert all(f"host{victim} was lost" in node.err for node in nodes if node is not nodes[victim - 1])
    assert job.rounds() == [0]


def test_a_crashed_host_is_named_and_may_be_waited_for(job):
    """The master sees its connection end. With an etcd no process is left to report it: the lease ends."""
    words = "--nnodes 3 --max_restart 1"
    lease = 0 if job.etcd else LONG_LEASE
    waits = Job(job.lab, job.stage, job.master if job.etcd else "10.77.0.1:8091")
    nodes, others = job.start([1, 2, 3], "--nnodes 3", lease=lease), waits.start([1, 2, 3], words, lease=lease)
    job.round(0, 3)
    before = waits.round(0, 3)

    job.lab.crash(3)

    assert job.codes() == [75, 75, -9]
    assert all("host3 was lost" in node.err for node in nodes[:2])
    for node in others[:2]:
        node.wait_for("host3 was lost; starting a new round")
    waits.node(3, words, lease=lease)
    assert waits.round(waits.next_round(0), 3) == before
    waits.finish()
    assert waits.codes() == [0, 0, -9, 0]


@pytest.mark.parametrize("words", ["", "--max_restart 1", "--max_restart 1 --elastic_level 0"])
def test_no_rank_is_blamed_for_losing_a_crashed_host(job, words):
    """Its workers' peers break at once, before the store knows: sooner than any shepherd's word, or lease."""
    nodes = job.start([1, 2, 3], f"--nnodes 3 {words}", CLINGS)
    wait_until(lambda: len(list(job.stage.glob("clings.0.*"))) == 3, "three that cling to each other")

    job.lab.crash(3)

    if words:
        for node in nodes[:2]:
            node.wait_for("host3 was lost; starting a new round")
            assert "restarting" not in node.err and "left" not in node.err
            node.process.terminate()
        assert job.codes() == [143, 143, -9]
    else:
        assert job.codes() == [75, 75, -9]
        assert all(last_words(node).endswith("host3 was lost") for node in nodes[:2])


def test_a_host_that_is_cut_off_is_named_and_exits(jobs):
    for job in jobs:
        job.start([1, 2, 3], "--nnodes 3 --nproc_per_node 2")
    for job in jobs:
        job.round(0, 6)

    jobs[0].lab.cut(3)

    for job in jobs:
        assert [node.wait() for node in job.nodes.started[:2]] == [75, 75]
    job.lab.heal()
    for job in jobs:
        assert job.codes() == [75, 75, 75]
        one, two, three = job.nodes.started
        assert all("host3 was lost" in node.err for node in (one, two))
        # An etcd keeps the job's last state for it; a master is gone with the job.
        assert ("host3 was lost" if job.etcd else f"lost the connection to the store: {job.master}") in last_words(
            three
        )
        assert job.rounds() == [0]


def test_the_coordinators_node_may_be_the_one_that_is_killed(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master("etcd"))
    first = job.node(2, "--nnodes 3", lease=LONG_LEASE)
    job.wait_for_records(1)  # who comes first has the coordinator
    others = job.start([1, 3], "--nnodes 3", lease=LONG_LEASE)
    job.round(0, 3)

    kill(first)

    assert job.codes() == [-9, 75, 75]
    assert all("host2 was lost" in node.err for node in others)


def test_a_node_whose_workers_have_all_succeeded_may_be_lost(job):
    first = job.node(1, "--nnodes 3")
    job.wait_for_records(
        1
    )  # so that it is not the coordinator who dies: with an etcd only the coordinator has seen who is done
    nodes = [first, *job.start([2, 3], "--nnodes 3")]
    job.round(0, 3)
    job.fail(2, 0)
    job.wait_for_records(1, "done")

    kill(nodes[2])

    nodes[2].wait()
    job.finish()
    assert job.codes() == [0, 0, -9]
    assert not job.notes("stopped", 0)


# With restarts: the others wait, and go on.


def test_a_job_waits_for_a_new_node_in_the_place_of_a_lost_one(job):
    nodes = job.start([1, 2, 3], "--nnodes 3 --max_restart 1")
    before = job.round(0, 3)
    kill(nodes[1])
    for node in (nodes[0], nodes[2]):
        node.wait_for("host2 was lost; starting a new round")

    job.node(2, "--nnodes 3 --max_restart 1")

    number = job.next_round(0)
    assert job.round(number, 3) == before
    assert {note["attempt"] for note in job.notes("worker", number).values()} == {"0"}
    job.finish()
    assert job.codes() == [0, -9, 0, 0]


def test_a_job_that_waits_without_success_for_a_lost_node_exits_with_75(jobs):
    for job in jobs:
        job.start([1, 2, 3], "--nnodes 3 --max_restart 1 --join-timeout 8")
    for job in jobs:
        job.round(0, 3)

        kill(job.nodes.started[2])

    for job in jobs:
        assert job.codes() == [75, 75, -9]
        for node in job.nodes.started[:2]:
            assert "host3 was lost; starting a new round" in node.err
            assert "nodes did not join in time: 2 of 3 joined (host1, host2)" in node.err
        assert job.rounds() == [0]


def test_a_host_that_was_cut_off_comes_back(jobs):
    for job in jobs:
        job.start([1, 2, 3], "--nnodes 3 --max_restart 1")
    before = [job.round(0, 3) for job in jobs]
    jobs[0].lab.cut(3)
    for job in jobs:
        for node in job.nodes.started[:2]:
            node.wait_for("host3 was lost; starting a new round")

    jobs[0].lab.heal()

    # Without its master a node has ended by now. Whether an etcd is away or this host is, it cannot know: it went on.
    (http, etcd), cut = jobs, jobs[0].nodes.started[2]
    assert cut.wait() == 75
    assert "lost" in last_words(cut) and http.master in last_words(cut)
    http.node(3, "--nnodes 3 --max_restart 1")
    assert [job.round(job.next_round(0), 3) for job in jobs] == before
    for job in jobs:
        job.finish()
    assert (http.codes(), etcd.codes()) == ([0, 0, 75, 0], [0, 0, 0])


def test_a_node_that_was_suspended_comes_back(jobs):
    for job in jobs:
        job.start([1, 2, 3], "--nnodes 3 --max_restart 1")
    before = [job.round(0, 3) for job in jobs]
    for job in jobs:
        job.nodes.started[2].process.send_signal(signal.SIGSTOP)
    for job in jobs:
        job.nodes.started[0].wait_for("host3 was lost; starting a new round")
    assert not any(2 in job.notes("stopped", 0) for job in jobs)

    for job in jobs:
        job.nodes.started[2].process.send_signal(signal.SIGCONT)

    assert [job.round(job.next_round(0), 3) for job in jobs] == before
    for job in jobs:
        assert len(job.notes("stopped", 0)) == 3
        job.finish()
        assert job.codes() == [0, 0, 0]


def test_of_two_partitions_one_continues_and_the_other_rejoins(jobs):
    words = "--nnodes 2:4 --elastic_timeout 0.5"
    for job in jobs:
        job.start([1, 2, 3, 4], words)
    before = [job.settle(4) for job in jobs]

    jobs[0].lab.partition([3, 4])

    apart = [job.settle(2, old.number) for job, old in zip(jobs, before, strict=True)]
    assert [sorted(part.hosts) for part in apart] == [["host1", "host2"]] * 2
    jobs[0].lab.heal()
    http, etcd = jobs
    assert [node.wait() for node in http.nodes.started[2:]] == [75, 75]
    http.start([3, 4], words)
    for job, part in zip(jobs, apart, strict=True):
        assert sorted(job.settle(4, part.number).hosts) == ["host1", "host2", "host3", "host4"]
        job.finish()
    # A rank that was there twice in one round would have failed.
    assert (http.codes(), etcd.codes()) == ([0, 0, 75, 75, 0, 0], [0] * 4)


# The node that serves the master.


@pytest.mark.parametrize("how", ["killed", "crashed", "cut"])
def test_without_the_masters_node_every_other_ends_within_the_lease(shared, tmp_path, how):
    asked = ["--nnodes 3", "--nnodes 3 --max_restart 1", "--nnodes 2:3"]
    jobs = [Job(shared.lab, tmp_path, f"10.77.0.1:{8090 + number}") for number in range(len(asked))]
    for job, words in zip(jobs, asked, strict=True):
        job.start([1, 2, 3], words)
    for job in jobs:
        job.round(0, 3)

    if how == "killed":
        for job in jobs:
            kill(job.nodes.started[0])
    else:
        shared.lab.crash(1) if how == "crashed" else shared.lab.cut(1)

    for job in jobs:
        assert [node.wait() for node in job.nodes.started[1:]] == [75, 75]
        assert set(job.notes("stopped", 0)) >= {1, 2}
        for node in job.nodes.started[1:]:
            assert "lost" in last_words(node) and job.master in last_words(node)
    if how == "cut":
        assert jobs[0].nodes.started[0].wait() == 75
        for job in jobs[1:]:
            job.nodes.started[0].wait_for("starting a new round")
            job.nodes.started[0].process.terminate()  # or it would wait for new ones
    own = [75, 143, 143] if how == "cut" else [-9, -9, -9]
    assert [job.codes() for job in jobs] == [[code, 75, 75] for code in own]
    assert [job.rounds() for job in jobs] == [[0]] * 3
