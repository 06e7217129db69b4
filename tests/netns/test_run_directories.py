"""`{time}` in --log_dir on many nodes: one for all, and another one for the next job."""

from __future__ import annotations

import os

from tests.lab.nodes import Node
from tests.netns.jobs import Job

WORDS = "--nnodes 2:3 --elastic_timeout 0.5 --log_dir runs/{job_id}/{time}"


def start(job: Job, host: int, words: str = WORDS, **options: float) -> Node:
    return job.node(host, words, log_dir=False, **options)


def time_of(job: Job, node: Node) -> str:
    """What {time} was on a node: the name of its only run, to which `latest` leads."""
    runs = node.directory / "runs" / job.name
    link = runs / "latest"
    [run] = [path for path in runs.iterdir() if path != link]
    assert os.readlink(link) == run.name
    assert (run / f"{job.name}.{node.host.name}.log").stat().st_size > 0
    assert (run / f"events.{node.host.name}.jsonl").exists()
    assert list(run.glob("workerlog.*"))
    return run.name


def test_all_nodes_have_one_time_and_the_next_job_another(job):
    nodes = [start(job, 1), start(job, 2, clock_offset=5000.0)]
    settled = job.settle(2)
    nodes.append(start(job, 3))  # joins a running job
    job.settle(3, after=settled.number)
    job.finish()

    assert job.codes() == [0, 0, 0]
    [first] = {time_of(job, node) for node in nodes}

    again = job.again()
    nodes = [start(again, 1), start(again, 2)]
    again.settle(2)
    again.finish()
    assert again.codes() == [0, 0]
    [second] = {time_of(again, node) for node in nodes}
    assert second != first


def test_a_node_that_comes_back_has_the_same_time(job):
    one, lost = start(job, 1), start(job, 2)
    settled = job.settle(2)
    job.lab.crash(2)
    lost.wait()
    back = start(job, 2)
    job.settle(2, after=settled.number)
    job.finish()

    assert (one.wait(), back.wait()) == (0, 0)
    assert time_of(job, one) == time_of(job, lost) == time_of(job, back)


def test_nodes_that_do_not_join_in_time_agree_on_it_as_well(job):
    words = "--nnodes 3 --join-timeout 8 --log_dir runs/{job_id}/{time}"
    nodes = [start(job, number, words) for number in (1, 2)]

    assert job.codes() == [75, 75]
    names = {path.name for node in nodes for path in (node.directory / "runs" / job.name).iterdir()}
    assert len(names - {"latest"}) == 1
    for node in nodes:
        [report] = (node.directory / "runs" / job.name).glob("2*/report.json")
        assert '"exit_code": 75' in report.read_text()
