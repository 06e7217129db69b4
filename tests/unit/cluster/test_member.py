"""A node's record says when it was written, by the node's clock: it is compared with the coordinator's."""

from __future__ import annotations

from flota.cluster.follower import Follower
from flota.cluster.member import Member
from flota.cluster.node_record import NodeRecord
from flota.cluster.registration import Registration
from flota.job.roster import NO_PORTS
from flota.store.etcd_json import Header, LeaseAnswer, LeaseGrant
from flota.store.keys import keys_of
from tests.rosters import ports_of


class Store:
    """Grants a lease to each who asks, and answers nothing else."""

    def __init__(self) -> None:
        self.leases = 0

    def ask(self, request, then, _now):
        if isinstance(request, LeaseGrant):
            self.leases += 1
            then(LeaseAnswer(Header(), id=str(self.leases), ttl="5"))

    def watch(self, *_):
        pass


def test_a_node_that_lost_its_lease_writes_a_new_time():
    now, epoch = 10.0, 1000.0
    follower = Follower(
        "n", NodeRecord("job", "h", "10.0.0.1", NO_PORTS, 1, 2, ("torch",)), join_timeout=600.0, outage_limit=60.0
    )
    registration = Registration(Store(), keys_of(None), "n", 5, may_coordinate=False, clock=lambda: now)
    member = Member(follower, registration, None, "master", now, epoch)
    follower.offered(ports_of(1, 2, 3, 4), 0)
    times = []
    for now in (11.0, 30.0):
        member.advance(now)
        member.advance(now)
        times.append(follower.record.joined)
        registration._lose_lease()
        registration.reconcile()

    assert times == [epoch + 11.0, epoch + 30.0]
