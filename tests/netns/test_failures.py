"""A worker's failure is the whole job's, told alike on every node; and jobs do not meet each other."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.lab.nodes import Node
from tests.launching import WORKERS, children, wait_until
from tests.netns.jobs import ETCD, Job

DEFAULT_GRACE = 30.0  # seconds


def last_screen(node: Node) -> str:
    """From the line that counts the culprits on."""
    return node.err[node.err.index("ABORT!!!") :]


@pytest.mark.parametrize(("rank", "how", "code"), [(0, 7, 7), (1, 1, 1), (2, "SIGKILL", 137)])
def test_a_failure_anywhere_ends_the_job_in_the_same_way_on_every_node(job, rank, how, code):
    nodes = job.start([1, 2, 3], "--nnodes 3")
    job.round(0, 3)

    job.fail(rank, how)

    assert job.codes() == [code] * 3
    ending = how if code == 137 else f"exit code {how}"
    for node in nodes:
        assert f"rank {rank} on host{rank + 1} failed first: {ending}" in node.err
        assert f"rank=[{rank}] was aborted" in node.err
        assert f"rank {rank} was told to fail" in node.err
        assert node.err.count("ABORT!!!") == 1
    assert last_screen(nodes[0]) == last_screen(nodes[1]) == last_screen(nodes[2])
    assert (job.rounds(), len(job.notes("stopped", 0))) == ([0], 2)


def test_of_two_failures_at_once_all_nodes_name_the_same(job):
    nodes = job.start([1, 2, 3], "--nnodes 3")
    job.round(0, 3)

    job.fail(2, 9)
    job.fail(1, 8)

    codes = job.codes()
    assert codes in ([8] * 3, [9] * 3)
    first = f"rank {codes[0] - 7} on host{codes[0] - 6} failed first: exit code {codes[0]}"
    assert all(first in node.err for node in nodes)
    assert last_screen(nodes[0]) == last_screen(nodes[1]) == last_screen(nodes[2])


def test_a_worker_that_does_not_stop_is_killed_when_the_grace_is_over(job):
    job.node(1, "--nnodes 2 --grace 1 --max_restart 1")
    deaf = job.node(2, "--nnodes 2 --grace 1 --max_restart 1", Path(WORKERS, "ignores_sigterm.py"))
    job.round(0, 1)
    deaf.wait_for_file("ready.1.0")
    begun = time.monotonic()

    job.fail(0)

    job.round(1, 1)
    assert 1 <= time.monotonic() - begun < DEFAULT_GRACE
    deaf.wait_for_file("ready.1.1")
    job.fail(0)
    assert job.codes() == [7, 7]


def test_the_report_is_written_once_and_is_what_the_others_show(job):
    nodes = job.start([1, 2, 3], "--nnodes 3 --nproc_per_node 2")
    job.round(0, 6)

    job.fail(3, 9)

    assert job.codes() == [9] * 3
    assert [(node.directory / "log" / "report.json").exists() for node in nodes] == [True, False, False]
    report = json.loads((nodes[0].directory / "log" / "report.json").read_text())
    (failure,) = report["failures"]
    assert (report["job_id"], report["verdict"], report["exit_code"]) == (job.name, "failed", 9)
    assert (report["world_size"], report["rounds"], report["attempt"]) == (6, 1, 0)
    assert (failure["rank"], failure["local_rank"], failure["node"], failure["exit_code"]) == (3, 1, "host2", 9)
    assert failure["pid"] == job.notes("worker", 0)[3]["pid"]
    assert failure["log"] == str(nodes[1].directory / "log" / "workerlog.3")
    for node in nodes:
        assert all(line in node.err for line in [*failure["said"], failure["log"]])


def test_restarts_are_counted_once_for_the_whole_job(job):
    nodes = job.start([1, 2, 3], "--nnodes 3 --max_restart 2")
    for attempt, rank in enumerate([1, 2, 0]):
        job.round(attempt, 3)
        job.fail(rank, 3 + attempt)

    assert job.codes() == [5] * 3
    assert job.rounds() == [0, 1, 2]
    for number in range(3):
        assert {note["attempt"] for note in job.notes("worker", number).values()} == {str(number)}
    for node in nodes:
        assert [line for line in node.err.splitlines() if "; restarting " in line] == [
            f"flota: warning: rank 1 on host2 failed: exit code 3 after {ran(node, 1)}; restarting (1 of 2)",
            f"flota: warning: rank 2 on host3 failed: exit code 4 after {ran(node, 2)}; restarting (2 of 2)",
        ]
        assert "rank 0 on host1 failed first: exit code 5" in node.err
    assert places(job, 0) == places(job, 1) == places(job, 2)


def ran(node: Node, restart: int) -> str:
    """How long the culprit ran, as the node says it."""
    line = next(line for line in node.err.splitlines() if f"restarting ({restart} of " in line)
    return line.partition(" after ")[2].partition(";")[0]


def places(job: Job, number: int) -> list[str]:
    return [worker.host for worker in job.round(number, 3)]


def test_a_job_that_recovers_succeeds(job):
    nodes = job.start([1, 2], "--nnodes 2 --max_restart 1")
    job.round(0, 2)
    job.fail(1)
    job.round(1, 2)

    job.finish()

    assert job.codes() == [0, 0]
    assert all("2 workers finished successfully" in node.err for node in nodes)


def test_workers_that_have_succeeded_are_restarted_as_well(job):
    job.start([1, 2, 3], "--nnodes 3 --max_restart 1")
    job.round(0, 3)
    job.fail(0, 0)
    wait_until(lambda: not Path(f"/proc/{job.notes('worker', 0)[0]['pid']}").exists(), "rank 0's end")

    job.fail(1)

    job.round(1, 3)
    job.finish()
    assert job.codes() == [0, 0, 0]
    assert job.rounds() == [0, 1]


def test_a_shepherd_that_is_killed_is_named_on_every_node(job):
    nodes = job.start([1, 2, 3], "--nnodes 3 --max_restart 1")
    job.round(0, 3)

    os.kill(children(nodes[1].process.pid)[0], signal.SIGKILL)

    job.round(1, 3)
    job.finish()
    assert job.codes() == [0, 0, 0]
    for node in nodes:
        (line,) = [line for line in node.err.splitlines() if "restarting (1 of 1)" in line]
        assert "shepherd process on host2 died: SIGKILL" in line


def test_two_jobs_on_one_etcd_do_not_interfere(shared, tmp_path):
    jobs = [Job(shared.lab, tmp_path, shared.master(ETCD)) for _ in range(2)]
    run_side_by_side(*jobs)


def test_two_masters_on_one_host_do_not_interfere(shared, tmp_path):
    jobs = [Job(shared.lab, tmp_path, f"10.77.0.1:{port}") for port in (8090, 8091)]
    run_side_by_side(*jobs)


def run_side_by_side(one: Job, other: Job) -> None:
    """The first fails while the second runs."""
    for job in (one, other):
        job.start([1, 2], "--nnodes 2")
    workers = one.round(0, 2), other.round(0, 2)

    one.fail(1)

    assert one.codes() == [7, 7]
    other.finish()
    assert other.codes() == [0, 0]
    assert workers[0] == workers[1]
    assert [len(job.notes("worker", 0)) for job in (one, other)] == [2, 2]
    assert not other.notes("stopped", 0)
    assert not any("was refused" in node.err for node in [*one.nodes.started, *other.nodes.started])


@pytest.mark.parametrize("how", [0, 7], ids=["well", "badly"])
def test_a_job_id_can_be_used_again_right_after_its_end(job, how):
    job.start([1, 2], "--nnodes 2")
    job.round(0, 2)
    job.fail(0, how) if how else job.finish()
    assert job.codes() == [how, how]

    again = job.again()
    again.start([2, 1], "--nnodes 2")

    assert [worker.world_size for worker in again.round(again.next_round(-1), 2)] == [2, 2]
    again.finish()
    assert again.codes() == [0, 0]


def test_a_job_id_can_be_used_again_right_after_all_nodes_were_killed(job):
    for node in job.start([1, 2], "--nnodes 2"):
        job.round(0, 2)
        node.process.kill()
    assert job.codes() == [-9, -9]

    again = job.again()
    again.start([1, 2], "--nnodes 2")

    again.round(again.next_round(-1), 2)
    again.finish()
    assert again.codes() == [0, 0]


def test_a_job_id_can_be_used_again_after_all_hosts_crashed(job):
    job.start([1, 2], "--nnodes 2")
    job.round(0, 2)
    for host in (1, 2):
        job.lab.crash(host)
    assert job.codes() == [-9, -9]

    again = job.again()
    again.start([1, 2], "--nnodes 2")

    # Nobody said goodbye to an etcd: until the lease is over, the dead count as present.
    again.round(again.next_round(-1), 2)
    again.finish()
    assert again.codes() == [0, 0]


def test_a_new_run_takes_no_part_in_the_end_of_the_old_one(jobs):
    for job in jobs:
        job.start([1], "--nnodes 3")
        job.wait_for_records(1)  # so that the one which is suspended has not the coordinator
        job.start([2, 3], "--nnodes 3")
    for job in jobs:
        job.round(0, 3)
        job.fail(2, 0)
        job.wait_for_records(1, "done")
        # So that it does not hear of the end, and somebody stays to tell it. As it is done, nobody misses its answer.
        job.nodes.started[2].process.send_signal(signal.SIGSTOP)
        job.fail(1)
    assert [job.nodes.started[1].wait() for job in jobs] == [7, 7]

    again = [job.again() for job in jobs]
    early = [job.node(2, "--nnodes 3") for job in again]

    for job in jobs:
        assert job.nodes.started[0].wait() == 7
        job.nodes.started[2].process.send_signal(signal.SIGCONT)
    for job in jobs:
        assert job.codes() == [7, 7, 7]
    for job in again:
        job.start([1, 3], "--nnodes 3")
        job.round(job.next_round(-1), 3)
        job.finish()
        assert job.codes() == [0, 0, 0]
    assert not any("rank 1 on host2 failed" in node.err for node in early)
