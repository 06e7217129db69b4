"""Ranks of many nodes are compared with each other, by what node records say of their steps."""

from __future__ import annotations

from flota.stragglers.detector import SlowRank, StepTime
from flota.stragglers.slow_ranks import SlowRankWatch, reported_steps


def test_a_record_is_written_again_only_when_much_has_changed():
    seconds = {("trainer", 0): 0.2001, ("trainer", 1): 0.2, ("trainer", 2): 0.0}
    rows = reported_steps((), seconds)
    assert rows == (StepTime(0, 0.2), StepTime(1, 0.2))

    assert reported_steps(rows, {**seconds, ("trainer", 1): 0.21}) is rows
    assert reported_steps(rows, {**seconds, ("trainer", 1): 0.3}) == (StepTime(0, 0.2), StepTime(1, 0.3))
    assert reported_steps(rows, {("trainer", 0): 0.2}) == (StepTime(0, 0.2),), "one has ended"


class RoundOfNodes:
    """One rank each, looked at for some seconds."""

    def __init__(self):
        self.now = 0.0
        self.round = 0
        self.watch = SlowRankWatch()
        self.known = ()

    def look(self, seconds, *steps):
        rows = [(f"gpu{rank}", (StepTime(rank, took),)) for rank, took in enumerate(steps)]
        until = self.now + seconds
        while self.now < until:
            self.known = self.watch.look(self.round, self.known, rows, self.now)
            self.now += 1.0
        return self.known


def test_ranks_of_many_nodes_are_compared_with_each_other():
    nodes = RoundOfNodes()

    assert nodes.look(60, 0.2, 0.2, 0.2) == ()
    assert nodes.look(60, 0.2, 0.5, 0.2) == (SlowRank(1, "gpu1", 2.5),)
    assert nodes.look(60, 0.2, 0.2, 0.2) == ()


def test_the_next_coordinator_knows_who_was_named():
    nodes = RoundOfNodes()
    named = nodes.look(60, 0.2, 0.5, 0.2)

    nodes.watch = SlowRankWatch()

    assert nodes.look(60, 0.2, 0.5, 0.2) == named
    assert nodes.look(60, 0.2, 0.2, 0.2) == ()


def test_in_the_next_round_a_slow_rank_is_named_again():
    nodes = RoundOfNodes()
    named = nodes.look(60, 0.2, 0.5, 0.2)
    nodes.round, nodes.known = 1, ()

    assert nodes.look(20, 0.2, 0.5, 0.2) == (), "not yet"
    assert nodes.look(40, 0.2, 0.5, 0.2) == named


def test_it_does_not_look_again_where_no_steps_are_reported():
    watch = SlowRankWatch()

    watch.look(0, (), [("gpu0", ())], 0.0)

    assert watch.deadline is None
