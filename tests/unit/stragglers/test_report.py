"""Slow ranks, from the pages on which they tell their steps to what people are told, on one machine and on many."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from flota.cluster.slow_ranks import Pace, told_steps

from flota.cluster.job_state import RUNNING, JobState, SlowRow
from flota.cluster.node_record import NodeRecord, Present, StepRow
from flota.host.channel import PAGE, Channel
from flota.job.plan import Worker, WorkerPlan
from flota.job.roster import NO_PORTS
from flota.stragglers.detector import PERIOD
from flota.stragglers.report import SELDOM, Pacing, SlowRanks
from flota.worker import heartbeat
from tests.rosters import ports_of

NODE_RECORD = NodeRecord("job", "gpu1", "10.0.0.1", ports_of(1, 2, 3, 4), 2, 2, ("torch",))


@pytest.fixture
def pacing():
    channel = Channel(4)
    plans = [WorkerPlan(Worker(0, "trainer", 8 + n, 8 + n, 16, n, 4, 2, (), (), "", ""), {}) for n in range(4)]
    made = Pacing(SimpleNamespace(channel=channel, plans=plans), 0.0)
    made.memory = channel.memory
    yield made
    channel.close()


def tell(pacing, *seconds, **numbers):
    for worker, took in enumerate(seconds):
        page = heartbeat._Page()
        page.memory, page.base = pacing.memory, worker * PAGE
        page.step, page.seconds = 7, took
        page.write(heartbeat._pack_numbers(numbers))


def test_a_slow_rank_is_told_with_its_host_and_factor_once_and_when_it_recovers(pacing):
    said = []
    console = SimpleNamespace(
        say=lambda level, text: said.append((level, text)), event=lambda name, **facts: said.append((name, facts))
    )
    slow_ranks = SlowRanks(console, "gpu2")
    who = {"role": "trainer", "rank": 10, "host": "gpu2"}

    for until, steps in ((300, (0.2, 0.2, 0.5, 0.2)), (600, (0.2, 0.2, 0.2, 0.2))):
        tell(pacing, *steps)
        while pacing.deadline <= until:
            slow_ranks.look(pacing.look(range(4), pacing.deadline), pacing.deadline)

    assert said == [
        ("straggler", {**who, "factor": 2.5, "recovered": False}),
        ("WARNING", "rank 10 on gpu2 is slow: its steps take 2.5 times as long as the others'"),
        ("straggler", {**who, "recovered": True}),
        ("INFO", "rank 10 on gpu2 is as fast as the others again"),
    ]


def test_looks_are_seldom_where_nobody_tells_of_steps(pacing):
    assert pacing.deadline == PERIOD
    pacing.look(range(4), 10.0)
    assert pacing.deadline == 10.0 + SELDOM

    tell(pacing, 0.2, 0.2, 0.2, 0.2)
    pacing.look(range(4), 70.0)
    assert pacing.deadline == 70.0 + PERIOD


def test_what_a_script_says_that_its_step_took_counts_before_the_time_between_steps(pacing):
    tell(pacing, 0.5, 0.5, seconds=0.125)

    assert pacing.look([0, 1], 10.0) == {("trainer", 8): 0.125, ("trainer", 9): 0.125}


def test_a_record_is_written_anew_only_when_much_has_changed():
    seconds = {("trainer", 0): 0.2001, ("trainer", 1): 0.2, ("trainer", 2): 0.0}
    rows = told_steps(NODE_RECORD, seconds)
    assert rows == (StepRow(0, 0.2), StepRow(1, 0.2))

    told = NodeRecord("job", "gpu1", "10.0.0.1", ports_of(1, 2, 3, 4), 2, 2, ("torch",), steps=rows)
    assert told_steps(told, {**seconds, ("trainer", 1): 0.21}) is rows
    assert told_steps(told, {**seconds, ("trainer", 1): 0.3}) == (StepRow(0, 0.2), StepRow(1, 0.3))
    assert told_steps(told, {("trainer", 0): 0.2}) == (StepRow(0, 0.2),), "one has ended"


class Table:
    """A round's records, looked at for some seconds."""

    def __init__(self):
        self.now = 0.0
        self.pace = Pace()
        self.job_state = JobState(RUNNING)

    def look(self, seconds, *steps):
        records = [
            Present(
                f"n{rank}", 1, NodeRecord("job", f"gpu{rank}", "a", NO_PORTS, 2, 2, (), steps=(StepRow(rank, took),))
            )
            for rank, took in enumerate(steps)
        ]
        until = self.now + seconds
        while self.now < until:
            self.job_state = self.pace.look(self.job_state, records, self.now)
            self.now += 1.0
        return self.job_state.slow


def test_ranks_of_many_nodes_are_compared_with_each_other():
    table = Table()

    assert table.look(60, 0.2, 0.2, 0.2) == ()
    assert table.look(60, 0.2, 0.5, 0.2) == (SlowRow(1, "gpu1", 2.5),)
    assert table.look(60, 0.2, 0.2, 0.2) == ()


def test_the_next_coordinator_knows_who_was_named():
    table = Table()
    named = table.look(60, 0.2, 0.5, 0.2)

    table.pace = Pace()

    assert table.look(60, 0.2, 0.5, 0.2) == named
    assert table.look(60, 0.2, 0.2, 0.2) == ()


def test_nobody_is_asked_again_where_no_steps_are_told():
    pace = Pace()

    pace.look(JobState(RUNNING), [Present("n0", 1, NODE_RECORD)], 0.0)

    assert pace.deadline is None
