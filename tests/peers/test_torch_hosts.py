"""torch on two hosts: a job that grows and shrinks, hostnames that mislead, IPv6."""

from __future__ import annotations

import os
import signal

import pytest

from tests.lab import Lab
from tests.lab.etcd import Etcd

from .conftest import fact
from .over_hosts import MASTER, MISLEADING, PATIENCE, Job, States, needs_lab

pytestmark = [pytest.mark.real, needs_lab]

STEPS = 48
TWO = ("--nnodes", 2, "--nproc_per_node", 1)


@pytest.fixture
def lab():
    with Lab(3) as lab:
        yield lab


@pytest.fixture
def states(tmp_path):
    return States(tmp_path / "states")


@pytest.fixture
def job(lab, tmp_path, states):
    return Job("torch", lab, tmp_path, "checkpointed.py", states.directory, "--steps", STEPS)


def check_trained_by_two(job: Job, loss: str) -> None:
    job.finish()
    assert job.results() == {rank: [f"RESULT world=2 loss={loss}"] for rank in (0, 1)}


@pytest.mark.parametrize("store", ["master", "etcd"] if os.environ.get("FLOTA_SOAK") else ["etcd"])
def test_a_job_grows_and_shrinks_and_comes_to_the_same_loss(lab, job, states, tmp_path, undisturbed, store):
    master = MASTER if store == "master" else f"etcd://{Etcd(lab.hosts[2:], tmp_path).addresses[0]}"
    flags = ("--nnodes", "1:2", "--nproc_per_node", 1, "--elastic_timeout", 1, "--master", master)

    states.open_gate(10)
    job.start([1], *flags)
    states.wait_for_step_after(9)
    job.start([2], *flags)
    job.on[2].wait_for("round 1: 2 nodes", PATIENCE)
    states.open_gate(20)
    states.wait_for_step_after(19)
    second = job.on.pop(2)
    second.process.send_signal(signal.SIGTERM)

    assert second.wait() == 128 + signal.SIGTERM
    second.assert_nobody_left()
    states.open_gate(STEPS)
    job.finish()
    starts = [line for line in job.on[1].log(0).splitlines() if line.startswith("START")]
    assert [(fact(line, "world"), fact(line, "step")) for line in starts] == [("1", "0"), ("2", "10"), ("1", "20")]
    assert job.results() == {0: [f"RESULT world=1 loss={undisturbed(STEPS)}"], 1: []}


def test_ddp_trains_where_hostnames_mislead(lab, job, undisturbed):
    for host in lab.hosts:
        host.etc_hosts(MISLEADING.format(host.name))

    job.start([1, 2], *TWO, "--master", MASTER)

    check_trained_by_two(job, undisturbed(STEPS))


def test_gloo_alone_would_follow_a_hostname_that_misleads(lab, job):
    for host in lab.hosts:
        host.etc_hosts(MISLEADING.format(host.name))

    job.start([1, 2], *TWO, "--master", MASTER, "--env", "GLOO_SOCKET_IFNAME=")  # to torch, as if it were not set

    assert [node.wait(PATIENCE) for node in job.on.values()] == [1, 1]
    for node in job.on.values():
        assert "Gloo connectFullMesh failed" in node.err
        assert "remote=[127.0.1.1]" in node.err
        node.assert_nobody_left()


def test_ddp_trains_on_a_network_of_ipv6_alone(lab, job, undisturbed):
    for host in lab.hosts:
        host.ip(f"addr del {host.address}/24 dev eth0")
        host.etc_hosts(MISLEADING.format(host.name))

    job.start([1, 2], *TWO, "--master", f"[{lab.host(1).address6}]:8090")

    check_trained_by_two(job, undisturbed(STEPS))
