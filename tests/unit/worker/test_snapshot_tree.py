"""A state as JSON and arrays: all that is written comes back equal, and all else is refused with its path."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flota.errors.snapshots import BrokenSnapshot, UnsupportedState
from flota.worker.snapshot_tree import Flattened, SavedTree

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.complex_numbers(allow_nan=False),
)
KEYS = st.one_of(
    st.text(), st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False), st.tuples(st.integers(), st.text())
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(KEYS, inner)),
    max_leaves=20,
)


class Pair(NamedTuple):
    left: object
    right: object


def no_array(saved):
    raise AssertionError(saved)


def through(value, like=...):
    state = Flattened()
    state.add_part("it", value)
    tree = SavedTree(state.to_json("train"), "here", no_array)
    return tree.part("it") if like is ... else tree.part("it", like)


def same(one, other):
    """Equal, with the same types all the way down: True is not 1, and 0.0 is not -0.0."""
    return repr(one) == repr(other)


@given(TREES)
def test_a_tree_comes_back_with_its_types(value):
    assert same(through(value), value)


def test_numbers_that_json_does_not_have_come_back():
    assert math.isnan(through([math.nan])[0])
    assert through((math.inf, -math.inf)) == (math.inf, -math.inf)


def test_dicts_of_other_kinds_come_back_as_dicts():
    assert same(through(OrderedDict(b=1, a=2)), {"b": 1, "a": 2})


def test_a_named_tuple_of_the_script_comes_back_as_one():
    saved = {"optim": [Pair(1, (2, 3))]}

    assert same(through(saved), {"optim": [(1, (2, 3))]})
    assert same(through(saved, like={"optim": [Pair(0, ())]}), saved)


@pytest.mark.parametrize(
    ("value", "path", "what"),
    [
        ({"a": [1, {2, 3}]}, "it.a.1", "builtins.set"),
        ({"hook": {"f": len}}, "it.hook.f", "builtin_function_or_method"),
        ([object()], "it.0", "builtins.object"),
        ({frozenset(): 1}, "it", "a key of the type frozenset"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_path(value, path, what):
    with pytest.raises(UnsupportedState) as refused:
        through(value)

    assert f"`{path}`" in refused.value.message
    assert what in refused.value.message


def test_a_value_that_contains_itself_is_refused():
    value: list[object] = []
    value.append(value)

    with pytest.raises(UnsupportedState, match="contains itself"):
        through(value)


@given(st.one_of(st.binary(), TREES.map(repr).map(str.encode), st.just(b'{"name":1,"parts":{"it":["x"]},"arrays":[]}')))
def test_what_is_not_a_tree_is_one_error(text):
    with pytest.raises(BrokenSnapshot):
        SavedTree(text, "here", no_array).part("it")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"{", "its list of parts"),
        (b"[" * 100_000, "its list of parts"),
        (b'{"name":"train","parts":{"it":["f","x"]},"arrays":[]}', "part `it`"),
        (b'{"name":"train","parts":{"it":["b","x"]},"arrays":[]}', "part `it`"),
        (b'{"name":"train","parts":{"it":["a",3]},"arrays":[]}', "part `it`"),
    ],
)
@pytest.mark.parametrize(
    ("where", "advice"), [("/data/a.snapshot", "move the file"), ("/proc/7/fd/3", "restart the job")]
)
def test_an_error_names_the_place_the_part_and_the_way_out(text, what, where, advice):
    with pytest.raises(BrokenSnapshot) as caught:
        SavedTree(text, where, no_array).part("it")

    assert where in caught.value.message
    assert f"{what} cannot be read (" in caught.value.message
    assert advice in caught.value.hint
