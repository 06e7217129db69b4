"""How nodes agree which of them run etcd: in front of a store that is real, over connections that are not."""

from __future__ import annotations

from itertools import count

import pytest

from flota.cluster.member_choice import LIST, OFFER_TIME, OFFERS, REPEAT, MemberChoice, read_members
from flota.errors import BadMemberList
from flota.job.nodes import Place
from flota.store.client_connection import Lost
from flota.store.etcd_json import Put, Refusal
from flota.store.kv import KeyValueStore

A, B, C, D = (Place(host, 8091) for host in "abcd")


class Nodes:
    """Nodes that join at one store, at a time that passes only by `wait`."""

    def __init__(self, members: int = 3) -> None:
        self.now, self.members, self.is_reachable = 0.0, members, True
        self.choices: dict[str, MemberChoice] = {}
        self.restart_store()

    def restart_store(self) -> None:
        self.store = KeyValueStore(count(1).__next__)

    def ask(self, request, then):
        try:
            then(self.store.answer(request, self.now) if self.is_reachable else Lost("connection refused"))
        except Refusal as refusal:
            then(refusal)

    def join(self, name: str, own: Place | None, job: str = "j") -> None:
        self.choices[name] = MemberChoice(self.ask, lambda: self.now, name, job, self.members, own)

    def wait(self, seconds: float = 1.0) -> None:
        end = self.now + seconds
        while self.now < end:
            for choice in self.choices.values():
                choice.on_time(self.now)
            self.now += 0.1
            self.store.expire(self.now)

    def lists(self) -> set[tuple[Place, ...]]:
        return {choice.places for choice in self.choices.values()}


def test_the_first_nodes_that_can_run_etcd_are_the_members():
    nodes = Nodes()
    nodes.join("w", None)
    for name, place in (("x", D), ("y", B)):
        nodes.join(name, place)
        nodes.wait()
    assert nodes.lists() == {()}

    nodes.join("z", A)
    nodes.wait()
    nodes.join("late", C)
    nodes.wait()

    assert nodes.lists() == {(D, B, A)}


def test_a_node_that_is_gone_before_the_list_is_written_is_not_in_it():
    nodes = Nodes()
    nodes.join("x", A)
    nodes.join("y", B)
    nodes.wait()
    del nodes.choices["x"]
    nodes.wait(OFFER_TIME + 1)

    nodes.join("z", C)
    nodes.join("last", D)
    nodes.wait()

    assert nodes.lists() == {(B, C, D)}


def test_a_master_that_comes_back_is_given_the_list_again():
    nodes = Nodes()
    for name, place in (("x", A), ("y", B), ("z", C)):
        nodes.join(name, place)
    nodes.wait()
    nodes.is_reachable = False
    nodes.wait(5)
    nodes.restart_store()
    nodes.is_reachable = True
    nodes.join("back", A)

    nodes.wait(2 * REPEAT)

    assert nodes.lists() == {(A, B, C)}
    assert not any(choice.other_list for choice in nodes.choices.values())


@pytest.mark.parametrize("other", [b'["j",[["d",8091]]]', b'["k",[["a",8091],["b",8091],["c",8091]]]', b"what?"])
def test_another_list_is_noticed_and_changes_nothing(other):
    nodes = Nodes()
    for name, place in (("x", A), ("y", B), ("z", C)):
        nodes.join(name, place)
    nodes.wait()
    nodes.store.answer(Put(key=LIST, value=other), nodes.now)

    nodes.wait(2 * REPEAT)

    assert nodes.lists() == {(A, B, C)}
    assert all(choice.other_list for choice in nodes.choices.values())


@pytest.mark.parametrize(
    "offer",
    [
        b"",
        b"{}",
        b'["j"]',
        b'["j",[["a",0]]]',
        b'["j",[["a",65535]]]',
        b'["j",[["\\u001b[2J",1]]]',
        b'["j",[["",1]]]',
        b"\xff",
    ],
)
def test_an_offer_that_is_no_address_does_not_count(offer):
    nodes = Nodes()
    nodes.store.answer(Put(key=OFFERS + b"x", value=offer), 0.0)
    nodes.join("y", A)
    nodes.join("z", B)
    nodes.wait()

    assert nodes.lists() == {()}
    assert {choice.offers for choice in nodes.choices.values()} == {2}


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b'["j",[["a",1],["b"]]]', b'["j",[["a",-1]]]', b'["j",[]]', b"\xff"]
)
def test_a_list_that_cannot_be_read_is_an_error(data):
    with pytest.raises(BadMemberList, match="cannot be read"):
        read_members(data)


@pytest.mark.parametrize("count", [2, 3])
def test_another_job_is_noticed_before_and_after_the_list_is_written(count):
    nodes = Nodes()
    for name, place in (("x", A), ("y", B), ("z", C))[:count]:
        nodes.join(name, place)
    nodes.wait()

    nodes.join("other", D, job="k")
    nodes.wait()

    assert nodes.choices["other"].other_job == "j"
    assert nodes.choices["other"].places == ()
    assert all(nodes.choices[name].other_job is None for name in "xyz"[:count])


def test_hosts_come_before_second_nodes_of_a_host():
    nodes = Nodes()
    for name, offer in ((b"x", b"a"), (b"x2", b"a"), (b"y", b"b")):
        port = b"8093" if name == b"x2" else b"8091"
        nodes.store.answer(Put(key=OFFERS + name, value=b'["j",[["%b",%b]]]' % (offer, port)), nodes.now)

    nodes.join("z", C)
    nodes.wait()

    assert nodes.lists() == {(A, B, C)}


def test_only_members_keep_the_list():
    nodes = Nodes()
    for name, place in (("x", A), ("y", B), ("z", C), ("late", D), ("none", None)):
        nodes.join(name, place)
    nodes.wait()

    assert {name for name, choice in nodes.choices.items() if choice.deadline is None} == {"late", "none"}
