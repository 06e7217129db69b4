"""Ranks that are slower than the rest."""

from __future__ import annotations

from flota.stragglers.detector import Straggler, Stragglers, factors


def steps(*seconds, role="trainer"):
    return {(role, rank): took for rank, took in enumerate(seconds)}


def look(stragglers, begin, end, seconds):
    return [word for now in range(begin, end, 10) for word in stragglers.look(float(now), seconds)]


def test_a_slow_rank_is_named_once_and_again_when_it_recovers():
    stragglers = Stragglers()
    even, slow = steps(*[0.2] * 8), steps(*[0.2] * 5, 0.5, 0.2, 0.2)

    assert look(stragglers, 0, 100, even) == []
    assert look(stragglers, 100, 500, slow) == [Straggler("trainer", 5, 2.5)]
    assert look(stragglers, 500, 900, even) == [Straggler("trainer", 5, 1.0, recovered=True)]


def test_who_was_named_by_another_is_told_of_when_it_recovers():
    stragglers = Stragglers([("trainer", 1)])

    assert look(stragglers, 0, 100, steps(0.2, 0.6, 0.2)) == []
    assert look(stragglers, 100, 200, steps(0.2, 0.2, 0.2)) == [Straggler("trainer", 1, 1.0, recovered=True)]


def test_a_moment_of_slowness_is_nothing():
    stragglers = Stragglers()

    told = [
        word
        for now in range(0, 600, 10)
        for word in stragglers.look(float(now), steps(0.2, 0.2, 0.9 if now % 30 == 0 else 0.2))
    ]

    assert told == []


def test_long_steps_are_watched_for_longer():
    stragglers = Stragglers()

    assert look(stragglers, 0, 300, steps(60.0, 60.0, 100.0)) == []
    assert look(stragglers, 300, 600, steps(60.0, 60.0, 100.0)) == [Straggler("trainer", 2, 100 / 60)]


def test_a_little_more_than_the_rest_is_not_slow():
    assert look(Stragglers(), 0, 900, steps(0.2, 0.2, 0.28)) == []


def test_of_two_the_slow_one_is_named():
    assert look(Stragglers(), 0, 100, steps(0.2, 0.4)) == [Straggler("trainer", 1, 2.0)]


def test_who_tells_no_steps_is_not_compared():
    assert look(Stragglers(), 0, 100, steps(0.2, 0.0, 0.0)) == []


def test_roles_are_not_compared_with_each_other():
    assert look(Stragglers(), 0, 100, steps(0.2, 0.2) | steps(2.0, 2.0, role="evaluator")) == []


def test_each_is_measured_by_the_middle_one_of_the_others():
    assert factors(steps(4.0, 1.0, 2.0, 3.0)) == {
        ("trainer", 0): 4.0 / 2.0,
        ("trainer", 1): 1.0 / 3.0,
        ("trainer", 2): 2.0 / 3.0,
        ("trainer", 3): 3.0 / 2.0,
    }
