"""--shared-console: where the consoles of all nodes end in one place, what concerns the job is printed once."""

from __future__ import annotations

import pytest

from tests.netns.jobs import ETCD, Job

WORDS = "--nnodes 3 --shared-console"
REPORT = "rank 2 on host3 failed first: exit code 7"


def printed(nodes, text):
    return [node.host.name for node in nodes if text in node.err]


def test_the_failure_report_is_printed_by_node_0_and_written_by_all(job):
    nodes = job.start([1, 2, 3], f"{WORDS} --log_dir {job.stage}/{{host}}")
    job.round(0, 3)

    job.fail(2)

    assert job.codes() == [7, 7, 7]
    assert printed(nodes, REPORT) == ["host1"]
    line = "rank 2 on host3 failed: exit code 7"
    assert printed(nodes, "; the report is printed by node 0 (host1)") == ["host2", "host3"] == printed(nodes, line)
    logs = [(job.stage / f"host{number}" / f"{job.name}.host{number}.log").read_text() for number in (1, 2, 3)]
    assert all(REPORT in log for log in logs)


def test_the_start_and_the_end_of_a_job_are_printed_once(job):
    nodes = job.start([1, 2, 3], WORDS)
    job.round(0, 3)

    job.finish()

    assert job.codes() == [0, 0, 0]
    assert printed(nodes, "round 0: 3 nodes") == ["host1"]
    assert printed(nodes, "all 3 workers finished successfully") == ["host1"]


@pytest.mark.parametrize("lost", [1, 2])
def test_without_node_0_the_lowest_remaining_node_prints(shared, tmp_path, lost):
    job = Job(shared.lab, tmp_path, shared.master(ETCD))
    nodes = job.start([1, 2, 3], WORDS)
    job.round(0, 3)

    nodes[lost - 1].process.kill()

    rest = [node for node in nodes if node is not nodes[lost - 1]]
    assert [node.wait() for node in rest] == [75, 75]
    assert printed(rest, f"host{lost} was lost") == [rest[0].host.name]


def test_without_the_flag_every_node_prints(job):
    nodes = job.start([1, 2, 3], "--nnodes 3")
    job.round(0, 3)

    job.fail(2)

    assert job.codes() == [7, 7, 7]
    assert printed(nodes, REPORT) == ["host1", "host2", "host3"]
