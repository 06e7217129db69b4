"""Slow ranks of one machine, from the pages on which they report their steps to what people are told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.host.channel import PAGE, Channel
from flota.job.plan import Worker, WorkerPlan
from flota.stragglers.detector import PERIOD, SlowRankWatch, StepTime
from flota.stragglers.step_times import NO_STEPS_PERIOD, StepTimes, report_changes
from flota.worker import heartbeat


@pytest.fixture
def step_times():
    channel = Channel(4)
    plans = [WorkerPlan(Worker(0, "trainer", 8 + n, 8 + n, 16, n, 4, 2, (), (), "", ""), {}) for n in range(4)]
    made = StepTimes(SimpleNamespace(channel=channel, plans=plans), 0.0)
    made.memory = channel.memory
    yield made
    channel.close()


def tell(step_times, *seconds, **numbers):
    for worker, took in enumerate(seconds):
        page = heartbeat._Page()
        page.memory, page.base = step_times.memory, worker * PAGE
        page.step, page.seconds = 7, took
        page.numbers = heartbeat._pack_numbers(numbers)
        page.write(1.0)


def test_a_slow_rank_is_reported_once_with_host_and_factor_and_when_it_recovers(step_times):
    said = []
    console = SimpleNamespace(
        say=lambda level, text: said.append((level, text)), event=lambda name, **facts: said.append((name, facts))
    )
    watch, known = SlowRankWatch(), ()
    who = {"role": "trainer", "rank": 10, "host": "gpu2"}

    for until, steps in ((300, (0.2, 0.2, 0.5, 0.2)), (600, (0.2, 0.2, 0.2, 0.2))):
        tell(step_times, *steps)
        while step_times.deadline <= until:
            now = step_times.deadline
            slow = watch.update(0, known, [("gpu2", step_times.read(range(4), now))], now)
            report_changes(console, known, slow)
            known = slow

    assert said == [
        ("straggler", {**who, "factor": 2.5, "recovered": False}),
        ("WARNING", "rank 10 on gpu2 is slow: its steps take 2.5 times as long as those of the other ranks"),
        ("straggler", {**who, "recovered": True}),
        ("INFO", "rank 10 on gpu2 is as fast as the other ranks again"),
    ]


def test_checks_are_rare_if_no_rank_reports_steps(step_times):
    assert step_times.deadline == PERIOD
    step_times.read(range(4), 10.0)
    assert step_times.deadline == 10.0 + NO_STEPS_PERIOD

    tell(step_times, 0.2, 0.2, 0.2, 0.2)
    step_times.read(range(4), 70.0)
    assert step_times.deadline == 70.0 + PERIOD


def test_what_a_script_says_that_its_step_took_counts_before_the_time_between_steps(step_times):
    tell(step_times, 0.5, 0.5, seconds=0.125)

    assert step_times.read([0, 1], 10.0) == (StepTime(8, 0.125), StepTime(9, 0.125))


def test_a_rank_that_reports_no_steps_has_no_step_time(step_times):
    tell(step_times, 0.2001, 0.0)

    assert step_times.read(range(4), 10.0) == (StepTime(8, 0.2),)
