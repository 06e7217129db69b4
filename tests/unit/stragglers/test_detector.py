"""Ranks that are slower than the rest."""

from __future__ import annotations

import pytest

from flota.stragglers.detector import SlowRank, SlowRankWatch, StepTime, factors, is_step_time, reported_steps


def steps(*seconds, role="trainer"):
    return tuple(StepTime(rank, took, role) for rank, took in enumerate(seconds))


class Round:
    """Its ranks' step times, looked at every ten seconds."""

    def __init__(self, *slow):
        self.watch = SlowRankWatch()
        self.slow = slow
        self.round = 0

    def update(self, begin, end, *seconds):
        """All that has been said about slow ranks meanwhile."""
        said = []
        for now in range(begin, end, 10):
            rows = seconds[now // 10 % len(seconds)]
            slow = self.watch.update(self.round, self.slow, [("gpu1", rows)], float(now))
            said += [slow] if slow != self.slow else []
            self.slow = slow
        return said


def test_a_slow_rank_is_named_once_and_again_when_it_recovers():
    ranks = Round()
    even, slow = steps(*[0.2] * 8), steps(*[0.2] * 5, 0.5, 0.2, 0.2)

    assert ranks.update(0, 100, even) == []
    assert ranks.update(100, 500, slow) == [(SlowRank(5, "gpu1", 2.5),)]
    assert ranks.update(500, 900, even) == [()]


def test_a_slow_rank_named_by_another_coordinator_recovers():
    ranks = Round(SlowRank(1, "gpu1", 3.0))

    assert ranks.update(0, 100, steps(0.2, 0.6, 0.2)) == []
    assert ranks.update(100, 200, steps(0.2, 0.2, 0.2)) == [()]


def test_a_moment_of_slowness_is_nothing():
    assert Round().update(0, 600, steps(0.2, 0.2, 0.9), *[steps(0.2, 0.2, 0.2)] * 2) == []


def test_long_steps_are_watched_for_longer():
    ranks = Round()

    assert ranks.update(0, 300, steps(60.0, 60.0, 100.0)) == []
    assert ranks.update(300, 600, steps(60.0, 60.0, 100.0)) == [(SlowRank(2, "gpu1", 1.67),)]


def test_a_little_more_than_the_rest_is_not_slow():
    assert Round().update(0, 900, steps(0.2, 0.2, 0.28)) == []


def test_of_two_the_slow_one_is_named():
    assert Round().update(0, 100, steps(0.2, 0.4)) == [(SlowRank(1, "gpu1", 2.0),)]


def test_roles_are_not_compared_with_each_other():
    assert Round().update(0, 100, steps(0.2, 0.2) + steps(2.0, 2.0, role="evaluator")) == []


def test_in_the_next_round_a_slow_rank_is_named_again():
    ranks = Round()
    named = ranks.update(0, 60, steps(0.2, 0.4))
    ranks.round, ranks.slow = 1, ()

    assert ranks.update(60, 90, steps(0.2, 0.4)) == [], "not yet"
    assert ranks.update(90, 120, steps(0.2, 0.4)) == named


def test_ranks_of_several_nodes_are_compared_with_each_other():
    watch, slow = SlowRankWatch(), ()
    rows = [(f"gpu{rank}", (StepTime(rank, took),)) for rank, took in enumerate((0.2, 0.5, 0.2))]

    for now in range(60):
        slow = watch.update(0, slow, rows, float(now))

    assert slow == (SlowRank(1, "gpu1", 2.5),)


def test_it_does_not_look_again_where_no_steps_are_reported():
    watch = SlowRankWatch()

    watch.update(0, (), [("gpu0", ())], 0.0)

    assert watch.deadline is None


def test_a_record_is_written_again_only_when_much_has_changed():
    rows = steps(0.2, 0.2)

    assert reported_steps((), rows) is rows
    assert reported_steps(rows, steps(0.2, 0.21)) is rows
    assert reported_steps(rows, steps(0.2, 0.3)) == steps(0.2, 0.3)
    assert reported_steps(rows, steps(0.2)) == steps(0.2), "one has ended"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_invalid_step_times_are_not_compared(seconds):
    assert not is_step_time(StepTime(0, seconds))


def test_each_is_measured_by_the_middle_one_of_the_others():
    seconds = {("trainer", rank): took for rank, took in enumerate((4.0, 1.0, 2.0, 3.0))}

    assert factors(seconds) == {
        ("trainer", 0): 4.0 / 2.0,
        ("trainer", 1): 1.0 / 3.0,
        ("trainer", 2): 2.0 / 3.0,
        ("trainer", 3): 3.0 / 2.0,
    }
