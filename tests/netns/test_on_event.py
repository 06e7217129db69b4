"""--on_event on several machines: each event is told once, by a node that is there."""

from __future__ import annotations

import json

import pytest

from tests.launching import wait_until
from tests.netns.jobs import ETCD, Job
from tests.netns.test_elastic import terminate


def saves(job):
    """Each node has a file of its own."""
    return f"--on_event 'cat >> {job.stage}/heard.$(uname -n)'"


def heard(job):
    """Events in the order in which they happened, each with the host that told it."""
    events = [json.loads(line) for path in job.stage.glob("heard.*") for line in path.read_text().splitlines()]
    return [(event["event"], event["node"]) for event in sorted(events, key=lambda event: event["time"])]


def read(job, host, kind):
    lines = (job.stage / f"heard.{host}").read_text().splitlines()
    return next(event for event in map(json.loads, lines) if event["event"] == kind)


def test_node_0_tells_what_happens_on_any_node(job):
    job.start([1, 2, 3], f"--nnodes 3 --max_restart 1 {saves(job)}")
    job.round(0, 3)
    job.fail(2)
    job.round(1, 3)
    job.finish()

    assert job.codes() == [0, 0, 0], job
    assert heard(job) == [("failure", "host1"), ("restart", "host1"), ("end", "host1")]
    failure, restart = read(job, "host1", "failure"), read(job, "host1", "restart")
    assert (failure["culprit"]["rank"], failure["culprit"]["node"], failure["round"]) == (2, "host3", 0)
    assert restart["message"].startswith("rank 2 on host3 failed: exit code 7 after ")
    assert (restart["round"], restart["attempt"]) == (1, 1)


def test_a_job_that_fails_is_told_once(job):
    job.start([1, 2], f"--nnodes 2 {saves(job)}")
    job.round(0, 2)
    job.fail(1)

    assert job.codes() == [7, 7], job
    assert heard(job) == [("failure", "host1"), ("end", "host1")]
    assert read(job, "host1", "end")["exit_code"] == 7


def test_if_node_0_is_lost_another_node_tells(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master(ETCD))
    job.start([2, 3, 4], f"--nnodes 3 {saves(job)}")
    job.round(0, 3)

    shared.lab.crash(2)

    assert job.codes()[1:] == [75, 75], job
    assert heard(job) == [("end", "host3")]
    assert read(job, "host3", "end")["reason"] == "host2 was lost"


def test_if_the_master_is_lost_node_1_tells(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master("http"))
    job.start([1, 2, 3], f"--nnodes 3 {saves(job)}")
    job.round(0, 3)

    shared.lab.crash(1)

    assert job.codes()[1:] == [75, 75], job
    assert heard(job) == [("end", "host2")]


def test_a_node_that_leaves_is_not_the_end_of_the_job(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master(ETCD))
    nodes = job.start([1, 2, 3], f"--nnodes 2:3 --elastic_timeout 1 {saves(job)}")
    job.settle(3)

    terminate(nodes[0])
    assert nodes[0].wait() == 143
    wait_until(lambda: ("restart", "host2") in heard(job), "the restart to be told")
    job.finish()

    assert job.codes() == [143, 0, 0], job
    (teller,) = [host for event, host in heard(job) if event == "end"]
    assert teller in ("host2", "host3")
    assert read(job, "host2", "restart")["reason"] == "host1 left"
    assert read(job, "host2", "restart")["culprit"] is None


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_failure_after_which_only_its_node_leaves_is_told(shared, tmp_path, culprit):
    job = Job(shared.lab, tmp_path, shared.master(ETCD))
    job.start([1, 2, 3], f"--nnodes 2:3 --elastic_timeout 1 --elastic_level 0 {saves(job)}")
    first = job.settle(3)

    job.fail(culprit)
    wait_until(lambda: "restart" in dict(heard(job)), "the restart to be told")
    job.finish()

    job.codes()
    host = first.hosts[culprit]
    assert ("failure", host) in heard(job)
    assert [event for event, _ in heard(job)].count("failure") == 1
    assert [event for event, _ in heard(job)].count("end") == 1
    assert ("end", host) not in heard(job)
