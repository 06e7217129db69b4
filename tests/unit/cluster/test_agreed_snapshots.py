"""The states of the next round, from the records of its nodes."""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster.agreed_snapshots import agree_on_snapshots
from flota.cluster.job_state import take_seat
from flota.cluster.node_record import NodeRecord, Present, decode_record, encode_record
from flota.job.roster import Ports
from flota.snapshots.agreement import AgreedStep, HeldSnapshot, RankSource


def present(node, *held, workers=1, **changes):
    ports = Ports(("1",) * workers, "2", "3", "4")
    record = NodeRecord("job", node, "10.0.0.1", ports, 2, 2, ("torch",), snapshots=held)
    return Present(node, 1, replace(record, **{"copier": "5", **changes}))


def held(rank, *steps, world=2, role="trainer"):
    return HeldSnapshot(role, rank, world, sharded=False, steps=steps)


def agreed(*nodes):
    return agree_on_snapshots([*nodes], tuple(take_seat(one.node, one.record) for one in nodes))


def test_ranks_are_those_of_the_seats():
    assert agreed(present("a", held(0, 4, 5)), present("b", held(1, 5, 6))) == (AgreedStep("trainer", 5, 2),)


def test_a_new_node_is_shown_where_the_state_is():
    found = agreed(present("a", held(0, 4, 5)), present("c"))

    assert found == (AgreedStep("trainer", 5, 2, others=(RankSource(1, 0, "a"),)),)


def test_a_state_that_cannot_be_fetched_is_not_agreed_on():
    """A node without a copier, as with TLS, has states for its own ranks only."""
    assert agreed(present("a", held(0, 4, 5), copier=""), present("c")) == ()
    assert agreed(present("a", held(0, 5), copier=""), present("b", held(1, 5))) == (AgreedStep("trainer", 5, 2),)


def test_nodes_without_states_agree_on_none():
    assert agreed(present("a"), present("b")) == ()


def test_ranks_of_a_role_are_counted_on_their_own():
    roles = {"roles": ("actor", "critic"), "workers": 3}
    first = present("a", held(1, 5, world=2, role="critic"), **roles, workers_by_role=(2, 1))
    second = present("b", held(0, 5, world=2, role="critic"), **roles, workers_by_role=(2, 1))

    [found] = agreed(first, second)

    assert (found.role, found.step) == ("critic", 5)
    assert found.others == (RankSource(0, 0, "b"), RankSource(1, 1, "a"))


def test_a_record_with_states_that_cannot_be_is_refused():
    good, bad = present("a", held(0, 4)).record, present("a", held(4, 4)).record

    assert decode_record(encode_record(good)) == good
    assert decode_record(encode_record(bad)) is None
