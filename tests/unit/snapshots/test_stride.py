"""Which steps are sent to other nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flota.snapshots.stride import INTERVAL, MEASURED, NONE, StrideChoice


def after(steps_per_second, start=100):
    choice = StrideChoice()
    choice.note(start, 0.0)
    choice.note(start + int(steps_per_second * MEASURED), MEASURED)
    return choice


@pytest.mark.parametrize(("pace", "stride"), [(1, 4), (10, 32), (100, 256), (0.5, 2)])
def test_the_stride_is_a_power_of_two_of_about_the_interval(pace, stride):
    assert after(pace).stride == stride
    assert INTERVAL / 2 < stride / pace <= INTERVAL


def test_nothing_is_sent_before_the_pace_is_known():
    choice = StrideChoice()

    assert choice.note(100, 0.0) == 0
    assert choice.note(100, 60.0) == 0
    assert choice.newest([96, 100]) == NONE


def test_a_state_that_was_overwritten_halves_the_number():
    choice = after(10)

    choice.double()

    assert (choice.stride, choice.newest([32, 64, 96])) == (64, 64)


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 10_000))
def test_ranks_that_find_other_paces_send_common_steps(one, other, step):
    """Of the last two steps that each keeps, one is common, unless their paces differ by more than two."""
    choices = after(one), after(other)
    strides = sorted(choice.stride for choice in choices)
    kept = [{step - step % stride - past * stride for past in (0, 1)} for stride in strides]

    assert strides[1] % strides[0] == 0
    if strides[1] <= 2 * strides[0]:
        assert kept[0] & kept[1]
