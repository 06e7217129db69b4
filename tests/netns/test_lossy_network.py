"""A master that is stopped for a while, and a network that loses packets: the outcome is the same on all nodes."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.netns.jobs import HTTP, Job

RUNS = range(20 if os.environ.get("FLOTA_SOAK") else 1)
LOSS = 20  # percent, in each direction


@pytest.fixture
def job(shared, tmp_path):
    """A running job with an embedded master, with one worker on each of three hosts."""
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    job.start([1, 2, 3], "--nnodes 3")
    job.round(0, 3)
    return job


@pytest.fixture
def lossy(shared):
    """Makes the network of hosts lossy, until the end of the test."""
    shaped = []

    def shape(*hosts: int) -> None:
        for host in hosts:
            shared.lab.shape(host, delay_ms=1, loss_percent=LOSS)
            shaped.append(host)

    yield shape
    for host in shaped:
        shared.lab.unshape(host)


def finish_on(job: Job, *hosts: int) -> None:
    for worker in job.round(0, 3):
        if worker.host in {f"host{number}" for number in hosts}:
            job.fail(worker.rank, 0)  # with exit code 0
    job.wait_for_records(len(hosts), '"state":"done"')


@pytest.mark.parametrize("done", [(), (2,), (2, 3)], ids=["all work", "one is done", "only the master works"])
def test_a_master_that_is_stopped_for_ten_seconds_ends_the_job_alike(job, done):
    finish_on(job, *done)
    master = job.nodes.started[0].process.pid

    os.kill(master, signal.SIGSTOP)
    time.sleep(10)  # the trouble itself
    os.kill(master, signal.SIGCONT)
    job.finish()

    assert len(set(job.codes(60))) == 1, job


@pytest.mark.parametrize("_run", RUNS)
def test_with_lost_packets_all_nodes_end_alike(lossy, job, _run):
    lossy(2, 3)
    finish_on(job, 2)
    time.sleep(8)  # the trouble itself
    job.finish()

    assert len(set(job.codes(60))) == 1, job
