"""Which step the ranks of a round load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flota.snapshots.agreement import AgreedStep, HeldSnapshot, RankSource, agree, is_sound_holding


def held(rank, *steps, world=2, sharded=False):
    return HeldSnapshot("trainer", rank, world, sharded, steps)


def agreed_on(holdings, *nodes):
    found = agree(holdings, {"trainer": list(nodes)})
    return found[0] if found else None


def test_the_newest_step_that_all_ranks_have_is_loaded():
    holdings = {"a": (held(0, 8, 9, 10),), "b": (held(1, 7, 8, 9),)}

    assert agreed_on(holdings, "a", "b") == AgreedStep("trainer", 9, 2)


def test_nothing_is_loaded_if_nothing_is_held():
    assert agree({"a": ()}, {"trainer": ["a"]}) == ()
    assert agree({}, {"trainer": ["a"]}) == ()


def test_a_rank_on_a_new_node_loads_the_copy_of_its_state():
    holdings = {"a": (held(0, 8, 9, sharded=True), held(1, 8, sharded=True)), "c": ()}

    agreed = agreed_on(holdings, "a", "c")

    assert agreed == AgreedStep("trainer", 8, 2, sharded=True, others=(RankSource(1, 1, "a"),))
    assert agreed.source_of(1).node == "a"
    assert agreed.source_of(0) == RankSource(0, 0)


def test_a_state_that_all_ranks_have_needs_no_copy_of_each():
    holdings = {"a": (held(0, 8, 9),), "c": ()}

    assert agreed_on(holdings, "a", "c") == AgreedStep("trainer", 9, 2, others=(RankSource(1, 0, "a"),))


def test_sharded_states_without_a_common_step_are_not_loaded():
    holdings = {"a": (held(0, 8, 9, sharded=True),), "b": (held(1, 6, 7, sharded=True),)}

    assert agreed_on(holdings, "a", "b") is None


def test_another_number_of_ranks_loads_a_state_that_all_ranks_have():
    holdings = {"a": (held(0, 8, 9), held(1, 8, 9))}

    agreed = agreed_on(holdings, "a", "a", "b")

    assert agreed == AgreedStep("trainer", 9, 2, others=(RankSource(2, 0, "a"),))


def test_another_number_of_ranks_is_shown_a_sharded_state_to_refuse():
    holdings = {"a": (held(0, 8, sharded=True), held(1, 8, 9, sharded=True))}

    assert agreed_on(holdings, "a") == AgreedStep("trainer", 8, 2, sharded=True)


def test_roles_agree_on_their_own():
    holdings = {"a": (held(0, 8, world=1), held(0, 3, world=1)._replace(role="critic"))}

    found = agree(holdings, {"trainer": ["a"], "critic": ["a"], "actor": ["a"]})

    assert [(one.role, one.step) for one in found] == [("trainer", 8), ("critic", 3)]


STEPS = st.lists(st.integers(0, 5), max_size=3, unique=True).map(tuple)


@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, max_size=3), st.booleans(), st.data())
def test_every_rank_can_load_what_is_agreed(nodes, sharded, data):
    """Any node may have any steps of two ranks; the next round has any places."""
    holdings = {
        str(node): tuple(held(rank, *steps, sharded=sharded) for rank, steps in enumerate(ranks) if steps)
        for node, ranks in enumerate(nodes)
    }
    places = data.draw(st.lists(st.sampled_from([*holdings]), min_size=2, max_size=2))

    agreed = agreed_on(holdings, *places)

    everything = [(one.rank, step) for ones in holdings.values() for one in ones for step in one.steps]
    both = {step for rank, step in everything if rank == 0} & {step for rank, step in everything if rank == 1}
    if agreed is None:
        assert not both and (sharded or not everything)
        return
    assert agreed.step == (max(both) if both else max(step for _, step in everything))
    for rank, place in enumerate(places):
        source = agreed.source_of(rank)
        there = [one for one in holdings[source.node or place] if one.rank == source.source]
        assert any(agreed.step in one.steps for one in there)
        assert source.source == rank or not both


@pytest.mark.parametrize(
    "one", [held(2, 1), held(-2, 1), held(0, -1), held(0, 1 << 63), held(0, *range(17)), held(0, world=0)]
)
def test_what_no_node_can_hold_is_refused(one):
    assert not is_sound_holding([one])
    assert is_sound_holding([held(0, 1), held(1)])


def test_an_older_step_is_loaded_if_the_newest_cannot_be_fetched():
    holdings = {"a": (held(0, 8, 9),), "b": (held(1, 8),), "c": ()}

    assert agree(holdings, {"trainer": ["a", "c"]}, {"b"}) == (
        AgreedStep("trainer", 8, 2, others=(RankSource(1, 1, "b"),)),
    )
    assert agree(holdings, {"trainer": ["a", "c"]}, set()) == ()
