"""When a node starts its etcd, and how it replaces a lost one."""

from __future__ import annotations

import pytest

from flota.etcd.membership import MANY_STARTS, PORTS_RETRY, SPARE_CHECK, STABLE, TURN, Membership
from flota.job.nodes import Place
from flota.store.client_connection import Lost
from flota.store.etcd_json import (
    EtcdMember,
    Header,
    LeaseAnswer,
    LeaseGrant,
    MemberAdd,
    MemberList,
    MemberPromote,
    MemberRemove,
    MembersAnswer,
    Refusal,
    TxnAnswer,
)

PLACES = tuple(Place(host, 8090) for host in ("a", "b", "c"))
URLS = {place.host: f"http://{place.host}:8091" for place in PLACES}
LISTED = [EtcdMember(str(number), f"{host}:8090", [url]) for number, (host, url) in enumerate(URLS.items(), 1)]
LEARNER = EtcdMember("9", "", [URLS["a"]])
SILENCE = Lost("no answer in time")
NOT_IN_SYNC = Refusal(9, "etcdserver: can only promote a learner member which is in sync with leader")


class World:
    """Records what a membership does, on places `own`."""

    def __init__(self, *own: str, used: tuple[str, ...] = (), spare: Place | None = None) -> None:
        self.now = 0.0
        self.used = set(used)
        self.launched: list[tuple[str, dict[str, str], bool]] = []
        self.asked: list[tuple[object, object]] = []
        self.said: list[str] = []
        places = tuple(place for place in PLACES if place.host in own)
        self.probed: list[object] = []
        self.lost = ""
        self.membership = Membership(PLACES, places, self, lambda: self.now, tls=False, spare=spare)
        self.advance(0)

    def launch(self, place, cluster, *, joins):
        self.launched.append((place.host, dict(cluster), joins))

    def are_ports_free(self, place):
        return place.host not in self.used

    def ask(self, request, then):
        self.asked.append((request, then))

    def probe(self, members, then):
        self.probed.append(then)

    def find_lost(self, silent):
        return self.lost

    def take_turn(self, lease):
        return f"turn with lease {lease}"

    def say(self, level, words):
        self.said.append(words)

    def advance(self, seconds):
        self.now += seconds
        self.membership.on_time(self.now)

    def exit(self, after=0.1):
        self.now += after
        self.membership.on_exit()

    def answer(self, *members, request):
        """Answer the open question, which must be `request`."""
        asked, then = self.asked.pop(0)
        assert asked == request
        given = members[0] if members and not isinstance(members[0], EtcdMember) else None
        then(given or MembersAnswer(Header(), list(members)))


def test_each_listed_host_starts_a_member_of_a_new_cluster():
    world = World("b")

    assert world.launched == [("b", {f"{host}:8090": url for host, url in URLS.items()}, False)]


def test_other_nodes_run_none():
    world = World()

    assert (world.launched, world.membership.deadline) == ([], None)


def test_a_second_node_of_a_host_takes_the_next_place_that_is_free():
    assert [place for place, _, _ in World("a", "b", used=("a",)).launched] == ["b"]


def test_it_waits_for_ports_that_are_in_use():
    world = World("a", used=("a",))
    assert world.launched == [] and "a:8090 are in use" in world.said[0]

    world.used.clear()
    world.advance(PORTS_RETRY)

    assert len(world.launched) == 1


def replace(world):
    """The answers to a node that finds its place in an existing cluster."""
    world.advance(5)
    world.answer(*LISTED, request=MemberList())
    world.answer(*LISTED[1:], request=MemberRemove("1"))
    world.answer(*LISTED[1:], LEARNER, request=MemberAdd([URLS["a"]], is_learner=True))


def test_where_the_cluster_exists_the_lost_member_is_replaced():
    world = World("a")
    world.exit()  # etcd: the member has already been bootstrapped

    replace(world)

    others = {"b:8090": URLS["b"], "c:8090": URLS["c"]}
    assert world.launched[1:] == [("a", {**others, "a:8090": URLS["a"]}, True)]
    world.advance(1)
    world.answer(NOT_IN_SYNC, request=MemberPromote("9"))
    world.advance(1)
    world.answer(*LISTED, request=MemberPromote("9"))
    assert world.membership.deadline is None and "replaced a lost member" in world.said[-1]


def test_if_no_member_answers_the_cluster_may_be_new():
    world = World("a")
    world.exit()

    world.advance(5)
    world.answer(SILENCE, request=MemberList())
    world.advance(5)

    assert [joins for _, _, joins in world.launched] == [False, False]


def test_a_cluster_that_has_answered_is_never_started_again():
    world = World("a")
    world.membership.note_answer()
    world.exit(after=STABLE + 1)
    assert "starting another" in world.said[-1]

    for _ in range(5):
        world.advance(10)
        world.answer(SILENCE, request=MemberList())

    assert len(world.launched) == 1


@pytest.mark.parametrize("lost", [MemberRemove("1"), MemberAdd([URLS["a"]], is_learner=True)])
def test_an_interrupted_replacement_begins_again(lost):
    world = World("a")
    world.exit()
    world.advance(5)
    world.answer(*LISTED, request=MemberList())
    if not isinstance(lost, MemberRemove):
        world.answer(*LISTED[1:], request=MemberRemove("1"))

    world.answer(SILENCE, request=lost)

    replace(world)
    assert world.launched[-1][2]


def test_a_program_that_always_exits_is_reported_and_tried_less_and_less_often():
    world = World("a")
    began = world.now
    for _ in range(MANY_STARTS):
        world.exit()
        while world.membership.place is None:
            world.advance(world.membership.deadline - world.now)
            if world.asked:
                world.answer(SILENCE, request=MemberList())

    assert "its log says why" in world.said[-1]
    assert world.now - began > 3


def test_a_node_that_leaves_has_its_member_removed():
    world = World("a")
    world.membership.leave()
    world.advance(0)
    world.answer(*LISTED, request=MemberList())
    world.answer(Refusal(14, "etcdserver: unhealthy cluster"), request=MemberRemove("1"))
    assert not world.membership.has_left

    world.advance(1)
    world.answer(*LISTED, request=MemberList())
    world.answer(*LISTED[1:], request=MemberRemove("1"))

    assert world.membership.has_left
    world.exit()
    world.advance(100)
    assert len(world.launched) == 1


SPARE = Place("10.0.0.4", 8090)
ADD_SPARE = MemberAdd(["http://10.0.0.4:8091"], is_learner=True)


def take_turn(world, *, succeeds=True):
    world.answer(LeaseAnswer(Header(), "7"), request=LeaseGrant(ttl=TURN))
    world.answer(TxnAnswer(Header(), succeeded=succeeds), request="turn with lease 7")


def test_a_node_on_another_host_takes_the_place_of_a_lost_member():
    world = World(spare=SPARE)
    assert world.launched == []  # it starts no cluster
    world.advance(SPARE_CHECK)
    world.answer(*LISTED, request=MemberList())
    world.probed.pop()([])
    assert world.asked == []

    world.lost = "2"
    world.advance(SPARE_CHECK)
    world.answer(*LISTED, request=MemberList())
    world.probed.pop()(["2"])
    take_turn(world)
    left = [LISTED[0], LISTED[2]]
    world.answer(*left, request=MemberRemove("2"))
    world.answer(*left, EtcdMember("9", "", ADD_SPARE.peer_urls), request=ADD_SPARE)

    ((place, cluster, joins),) = world.launched
    assert (place, joins) == ("10.0.0.4", True)
    assert set(cluster) == {"a:8090", "c:8090", "10.0.0.4:8090"}


def test_it_takes_the_place_of_one_that_has_left():
    world = World(spare=SPARE)
    world.advance(SPARE_CHECK)
    world.answer(*LISTED[:2], request=MemberList())

    take_turn(world)

    assert [request for request, _ in world.asked] == [ADD_SPARE]


def test_of_two_nodes_only_one_replaces_a_member():
    world = World(spare=SPARE)
    world.advance(SPARE_CHECK)
    world.answer(*LISTED[:2], request=MemberList())

    take_turn(world, succeeds=False)

    assert world.asked == [] and world.membership.deadline == world.now + SPARE_CHECK


def test_a_listed_host_that_comes_back_too_late_waits_until_it_is_needed():
    world = World("a")
    world.exit()
    world.advance(5)

    world.answer(EtcdMember("8", "d:8090", ["http://d:8091"]), *LISTED[1:], request=MemberList())

    world.probed.pop()([])
    assert len(world.launched) == 1 and world.membership.deadline == world.now + SPARE_CHECK
