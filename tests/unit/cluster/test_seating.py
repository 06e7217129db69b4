"""Who sits where: wishes, survivors, newcomers, and the order of those who have no reason to sit anywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from flota.cluster.node_record import NodeRecord, Present
from flota.cluster.seating import imports_first, natural, seat
from tests.rosters import ports_of


def node(name, host=None, rank=-1, address="10.0.0.1", came=0, *, serves=False):
    record = NodeRecord("job", host or name, address, ports_of(1, 2, 3, 4), 1, 99, ("torch",), rank, serves)
    return Present(name, came, record)


def names(rows):
    return [row.node for row in rows]


def test_hosts_in_natural_order():
    assert names(seat([node("host10"), node("host9"), node("host1")], ())) == ["host1", "host9", "host10"]


def test_the_master_is_node_0():
    assert names(seat([node("a"), node("b", serves=True)], ())) == ["b", "a"]


def test_by_address():
    present = [node("a", address="10.0.0.10"), node("b", address="10.0.0.9")]
    assert names(seat(present, (), by_address=True)) == ["b", "a"]


def test_a_rank_is_respected_whichever_node_serves():
    assert names(seat([node("a", serves=True, rank=1), node("b")], ())) == ["b", "a"]


def test_survivors_keep_their_seats_and_newcomers_take_the_holes():
    before = seat([node("a"), node("b"), node("c"), node("d")], ())
    assert names(seat([node("a"), node("c"), node("d"), node("aa")], before)) == ["a", "aa", "c", "d"]


def test_in_a_smaller_round_the_last_move_up_before_newcomers():
    before = seat([node("a"), node("b"), node("c"), node("d")], ())
    assert names(seat([node("a"), node("d")], before)) == ["a", "d"]
    assert names(seat([node("c"), node("d"), node("0")], before)) == ["d", "0", "c"]


def test_a_rank_beyond_a_small_round_takes_a_hole():
    present = [node("a", rank=0), node("c", rank=3), node("b", rank=2)]
    assert names(seat(present, ())) == ["a", "c", "b"]


def test_digits_count_as_numbers():
    hosts = ["node-2b", "node-10a", "node-2a", "node", "2", "10"]
    assert sorted(hosts, key=natural) == ["2", "10", "node", "node-2a", "node-2b", "node-10a"]


@given(
    st.lists(st.sampled_from("abcdefghij"), unique=True, min_size=1),
    st.lists(st.sampled_from("abcdefghij"), unique=True, min_size=1),
)
def test_each_node_has_one_seat_and_remaining_nodes_keep_theirs(first, second):
    before = seat([node(name) for name in first], ())
    after = names(seat([node(name) for name in second], before))
    assert sorted(after) == sorted(second)
    for number, row in enumerate(before):
        if row.node in second and number < len(second):
            assert after[number] == row.node


def test_only_a_newcomer_that_replaces_no_node_of_an_elastic_round_imports_first():
    seats = seat([node("a"), node("b")], ())
    warm, warming, back = (node(name).record for name in ("c", "c", "b"))
    warming, back = (replace(record, warming=True) for record in (warming, back))

    assert [imports_first(one, seats, elastic=True) for one in (warm, warming, back)] == [False, True, False]
    assert not imports_first(warming, seats, elastic=False)
