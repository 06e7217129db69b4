"""Spares: nodes that wait, and take the seat of a lost node at once."""

from __future__ import annotations

import json
import signal

import pytest

from flota.ledger.read_logs import find_ledger
from tests.lab.nodes import Node
from tests.netns.jobs import LONG_LEASE, WORKERS, Job, Worker, last_words

WORDS = "--nnodes 2 --spares 1 --nproc_per_node 2"
IS_SPARE = "this node is a spare: it waits to replace one of "
LONG = 90  # seconds: a rank must be slow for half a minute


def start(job: Job, words: str = WORDS, **options) -> tuple[list[Node], list[Worker]]:
    """Two nodes on hosts 1 and 2, and a spare on host 3."""
    first = job.node(1, words, **options)
    job.wait_for_records(1)
    second = job.node(2, words, **options)
    before = job.round(0, 4)
    spare = job.node(3, words, **options)
    spare.wait_for(f"{IS_SPARE}host1, host2")
    return [first, second, spare], before


def on_hosts(before: list[Worker], **hosts: str) -> list[Worker]:
    """The same workers, but on other hosts."""
    return [worker._replace(host=hosts.get(worker.host, worker.host)) for worker in before]


def report_of(node: Node) -> dict[str, object]:
    return json.loads((node.directory / "log" / "report.json").read_text())


def test_it_takes_the_ranks_of_a_killed_node_which_comes_back_as_a_spare(job):
    """Without restarts and within the lease: the shepherd reports the death."""
    nodes, before = start(job, f"{WORDS} --warm decimal", lease=LONG_LEASE)
    nodes[2].wait_for("warm: workers are forked from one interpreter, which imported decimal")

    nodes[1].process.kill()

    assert job.round(1, 4) == on_hosts(before, host2="host3")
    nodes[0].wait_for("host2 was lost; replaced by the spare host3; starting a new round")
    back = job.node(2, f"{WORDS} --warm decimal", lease=LONG_LEASE)
    back.wait_for(f"{IS_SPARE}host1, host3")
    nodes[2].process.kill()
    assert job.round(2, 4) == before
    job.finish()
    assert job.codes() == [0, -9, -9, 0]
    report = report_of(nodes[0])
    reasons = [(one["reason"], one["counted"], one["lost"]) for one in report["restarts"]]
    assert reasons == [
        ("host2 was lost; replaced by the spare host3", False, ["host2"]),
        ("host3 was lost; replaced by the spare host2", False, ["host3"]),
    ]
    assert job.rounds() == [0, 1, 2]
    _, ledger = find_ledger(sorted({str(node.directory / "log") for node in (*nodes, back)}))
    assert [row.rank for row in ledger.ranks] == [0, 1, 2, 3]
    assert max(row.wall for row in ledger.ranks) == ledger.ranks[0].wall  # the others had their seats for less time


def test_it_takes_the_ranks_of_a_crashed_host(job):
    """The master sees its connection end. With an etcd no process is left to report it: the lease ends."""
    nodes, before = start(job, lease=0 if job.etcd else LONG_LEASE)

    job.lab.crash(2)

    assert job.round(job.next_round(0), 4) == on_hosts(before, host2="host3")
    job.finish()
    assert job.codes() == [0, -9, 0]
    assert report_of(nodes[0])["lost_nodes"] == ["host2"]
    assert not (nodes[2].directory / "log" / "report.json").exists()


def test_it_takes_the_ranks_of_a_host_that_is_cut_off(jobs):
    """A node that lost its master exits, and is started again; one that lost its etcd comes back. Both are spares."""
    befores = [start(job)[1] for job in jobs]

    jobs[0].lab.cut(2)

    for job, before in zip(jobs, befores, strict=True):
        assert job.round(job.next_round(0), 4) == on_hosts(before, host2="host3")
    jobs[0].lab.heal()
    for job in jobs:
        back = job.nodes.started[1]
        if not job.etcd:
            assert back.wait() == 75
            back = job.node(2, WORDS)
        back.wait_for(f"{IS_SPARE}host1, host3")
        job.finish()
        assert job.codes() == ([0, 0, 0] if job.etcd else [0, 75, 0, 0])
        assert report_of(job.nodes.started[0])["spares"] == ["host2"]
        assert "all 4 workers finished successfully" in last_words(back)


def test_it_takes_over_when_the_coordinator_and_node_0_are_lost_at_once(shared, tmp_path):
    """Only with an etcd. The spare may become the coordinator: it knows that it is part of the job."""
    job = Job(shared.lab, tmp_path, shared.master("etcd"))
    nodes, before = start(job)

    job.lab.crash(1)

    assert job.round(job.next_round(0), 4) == on_hosts(before, host1="host3")
    job.finish()
    assert job.codes() == [-9, 0, 0]
    assert "host1 was lost; replaced by the spare host3" in nodes[1].err


def test_it_may_leave_or_be_killed_and_ends_with_the_jobs_code(job):
    nodes, _ = start(job)
    for how, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        job.nodes.started[-1].process.send_signal(how)
        assert job.nodes.started[-1].wait() == code
        job.node(3, WORDS).wait_for(IS_SPARE)

    job.fail(3, 7)

    assert job.codes() == [7, 7, 143, -9, 7]
    assert job.rounds() == [0]
    assert "the spare host3 is gone" in nodes[0].err


def test_a_node_that_is_drained_is_replaced_and_one_too_many_is_refused(job):
    nodes, before = start(job)
    more = job.node(4, WORDS)
    assert more.wait() == 2
    assert "the job already has all 2 nodes and 1 spare" in last_words(more)

    nodes[1].process.terminate()

    assert job.round(1, 4) == on_hosts(before, host2="host3")
    job.finish()
    assert job.codes() == [0, 143, 0, 2]


def test_a_straggler_is_swapped_once_with_its_reason(jobs):
    words = f"{WORDS} --evict-stragglers 1.5x".replace("--nproc_per_node 2", "--nproc_per_node 1")
    for job in jobs:
        nodes = [job.node(1, words, WORKERS / "slow_host.py")]
        job.wait_for_records(1)
        nodes += [job.node(2, words, WORKERS / "slow_host.py")]
        job.round(0, 2)
        nodes += [job.node(3, words, WORKERS / "slow_host.py")]

    for job in jobs:
        first, evicted, _ = job.nodes.started
        first.wait_for("host2 is evicted: the steps of rank 1 take ", LONG)
        assert [worker.host for worker in job.round(1, 2)] == ["host1", "host3"]
        evicted.wait_for(f"{IS_SPARE}host1, host3")
        job.finish()
        assert job.codes() == [0, 0, 0]
        [restart] = report_of(first)["restarts"]
        assert restart["reason"].startswith("host2 is evicted: the steps of rank 1 take ")
        assert restart["reason"].endswith("times as long as those of the other ranks; replaced by the spare host3")
        assert (restart["counted"], report_of(first)["spares"]) == (False, ["host2"])
        _, ledger = find_ledger([str(node.directory / "log") for node in job.nodes.started])
        assert [(row.rank, row.node) for row in ledger.ranks] == [(0, "host1"), (1, "host3")]


@pytest.mark.parametrize("words", ["--nnodes 2:3 --spares 1 --elastic_timeout 1s"])
def test_an_elastic_job_stays_at_its_largest_size(job, words):
    job.start([1, 2, 3], words)
    round_ = job.settle(3)
    job.node(4, words).wait_for(IS_SPARE)

    job.nodes.started[2].process.kill()

    assert job.settle(3, round_.number).hosts == ["host1", "host2", "host4"]
    job.finish()
    assert job.codes() == [0, 0, -9, 0]
