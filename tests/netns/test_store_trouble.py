"""A real etcd of three members has trouble, and the job does not notice."""

from __future__ import annotations

import time

import pytest

from tests.lab import Lab, missing
from tests.lab.etcd import Etcd
from tests.launching import wait_until
from tests.netns.jobs import LEASE, Job

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

PAUSE = 2 * LEASE


class Cluster:
    """etcd on hosts 1 to 3, nodes on 4 to 6."""

    def __init__(self, lab: Lab, etcd: Etcd) -> None:
        self.lab, self.etcd = lab, etcd
        self.master = f"etcd://{','.join(etcd.addresses)}"

    def whole_again(self) -> None:
        """For this test, whatever the last one did."""
        self.lab.heal()
        self.etcd.resume()
        for number, member in self.etcd.members.items():
            if member.process.poll() is not None:
                self.etcd.restart(number)
        for member in self.etcd.members.values():
            wait_until(member.is_ready, f"etcd on {member.host.name}")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with Lab(6) as lab:
        yield Cluster(lab, Etcd(lab.hosts[:3], tmp_path_factory.mktemp("etcd")))


@pytest.fixture
def cluster(built):
    for host in (4, 5, 6):
        built.lab.crash(host)
    built.whole_again()
    return built


@pytest.fixture
def job(cluster, tmp_path):
    """A job that is running."""
    job = Job(cluster.lab, tmp_path, cluster.master)
    job.start([4, 5, 6], "--nnodes 3 --max_restart 1")
    job.round(0, 3)
    return job


def leader(cluster: Cluster) -> int:
    return cluster.etcd.leader()


def follower(cluster: Cluster) -> int:
    return next(number for number in cluster.etcd.members if number != cluster.etcd.leader())


def assert_nothing_happened(job: Job) -> None:
    """The store hears of a failure, the nodes meet again, and nothing had ended the round before."""
    assert not job.notes("stopped", 0)
    job.fail(2)
    job.round(1, 3)
    job.finish()
    assert job.codes(40) == [0, 0, 0]
    assert job.rounds() == [0, 1]
    for node in job.nodes.started:
        assert "; restarting (1 of 1)" in node.err
        assert " lost; starting a new round" not in node.err


@pytest.mark.parametrize("who", [leader, follower])
def test_a_killed_member_is_not_noticed(cluster, job, who):
    cluster.etcd.kill(who(cluster))
    cluster.etcd.leader()

    assert_nothing_happened(job)


def test_a_leader_that_pauses_is_not_noticed(cluster, job):
    cluster.etcd.pause(members=[cluster.etcd.leader()])
    wait_out(PAUSE)
    cluster.etcd.resume()

    assert_nothing_happened(job)


def test_a_cluster_that_pauses_is_not_noticed(cluster, job):
    cluster.etcd.pause()
    wait_out(PAUSE)
    cluster.etcd.resume()

    assert_nothing_happened(job)


@pytest.mark.parametrize(("who", "seconds"), [(leader, LEASE + 1), (follower, 0)])
def test_a_member_that_is_cut_off_is_not_noticed(cluster, job, who, seconds):
    cluster.lab.cut(who(cluster))
    wait_out(seconds)

    assert_nothing_happened(job)


def wait_out(seconds: float) -> None:
    """The trouble itself: how long it lasts is what is tried."""
    time.sleep(seconds)
