"""A real etcd has no space left in the middle of a run: it answers, renews leases, and refuses every write."""

from __future__ import annotations

import base64
import time

import pytest

from flota.cluster.follower import FAILING_LIMIT
from tests.lab import Lab, missing
from tests.lab.etcd import Etcd, Member
from tests.netns.jobs import Job

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

QUOTA = 16 << 20
PATIENCE = 60.0  # seconds for a write of a megabyte on a busy machine
FULL = "it refuses writes: etcdserver: mvcc: database space exceeded"


@pytest.fixture
def lab():
    with Lab(4) as lab:
        yield lab


@pytest.fixture
def member(lab, tmp_path):
    return Etcd([lab.host(4)], tmp_path, more=["--quota-backend-bytes", str(QUOTA)]).members[4]


@pytest.fixture
def job(lab, member, tmp_path):
    """A job that is running."""
    job = Job(lab, tmp_path, f"etcd://{member.address}")
    job.start([1, 2, 3], "--nnodes 3 --max_restart 1")
    job.round(0, 3)
    return job


def fill(member: Member) -> None:
    value = base64.b64encode(bytes(1 << 20)).decode()
    try:
        while True:
            member.ask("/v3/kv/put", {"key": "ZmlsbA==", "value": value}, PATIENCE)
    except OSError as error:
        if "database space exceeded" not in str(error):
            raise


def make_room(member: Member) -> None:
    revision = member.ask("/v3/kv/range", {"key": "YQ=="})["header"]["revision"]
    member.ask("/v3/kv/compaction", {"revision": revision, "physical": True}, PATIENCE)
    member.ask("/v3/maintenance/defragment", {}, PATIENCE)
    alarm = member.ask("/v3/maintenance/alarm", {"action": "GET"})["alarms"][0]
    member.ask("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})


def test_all_nodes_report_it_and_end_with_75_in_time(member, job):
    fill(member)
    began = time.monotonic()
    job.fail(2)

    for node in job.nodes.started:
        node.wait_for(f"the store is failing: etcd at {member.address}: {FULL}", 60)
    assert job.codes(FAILING_LIMIT + 60) == [75, 75, 75]
    assert time.monotonic() - began >= FAILING_LIMIT
    for node in job.nodes.started:
        assert f"the store failed: etcd at {member.address}: {FULL}" in node.err


def test_the_job_goes_on_when_there_is_space_again(member, job):
    fill(member)
    job.fail(2)
    for node in job.nodes.started:
        node.wait_for(FULL, 60)

    make_room(member)

    job.next_round(0)
    job.finish()
    assert job.codes(120) == [0, 0, 0]
