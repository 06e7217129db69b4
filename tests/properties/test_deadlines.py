"""Deadlines that are set, moved and removed in any order: always the one that a look at all of them would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flota.store.deadlines import MAX_STALE, Deadlines

numbers = st.integers(0, 5)
times = st.integers(0, 20)
steps = st.one_of(
    st.tuples(st.just("set"), numbers, times),
    st.tuples(st.just("remove"), numbers, st.just(0)),
    st.tuples(st.just("take"), st.just(0), times),
    st.tuples(st.just("look"), st.just(0), st.just(0)),
)


@given(st.lists(steps, max_size=40))
def test_the_first_is_the_first_of_all(history):
    deadlines, plain = Deadlines(), {}
    for word, number, at in history:
        if word == "set":
            deadlines[number] = at
            plain[number] = at
        elif word == "remove":
            deadlines.remove(number)
            plain.pop(number, None)
        elif word == "take":
            due = [number for number, end in plain.items() if end <= at]
            assert sorted(deadlines.take_due(at)) == sorted(due)
            plain = {number: end for number, end in plain.items() if number not in due}
        else:
            assert deadlines.first == min(plain.values(), default=None)
    assert deadlines.first == min(plain.values(), default=None)
    assert all(deadlines[number] == end for number, end in plain.items())


def test_those_that_are_due_come_in_their_order():
    deadlines = Deadlines()
    for number, end in ((1, 30), (2, 10), (3, 20), (4, 99)):
        deadlines[number] = end

    assert deadlines.take_due(50) == [2, 3, 1]


def test_what_comes_and_goes_leaves_nothing_behind():
    deadlines = Deadlines()
    for number in range(10_000):
        deadlines[number] = 1e9
        deadlines.remove(number)

    assert len(deadlines._heap) <= MAX_STALE + 2
