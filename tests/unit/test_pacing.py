"""Slow ranks, from the pages on which they tell their steps to what people are told."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from flota.host.channel import PAGE, Channel
from flota.job.plan import Worker, WorkerPlan
from flota.run.pacing import SELDOM, Pacing
from flota.supervise.stragglers import PERIOD, SECONDS


@pytest.fixture
def pacing():
    channel = Channel(4)
    plans = [WorkerPlan(Worker(0, "trainer", 8 + n, 8 + n, 16, n, 4, 2, (), (), "", ""), {}) for n in range(4)]
    roster = SimpleNamespace(seats=[SimpleNamespace(node=f"gpu{n}") for n in range(3)])
    said = []
    console = SimpleNamespace(
        say=lambda level, text: said.append((level, text)), event=lambda name, **facts: said.append((name, facts))
    )
    made = Pacing(SimpleNamespace(channel=channel, plans=plans, roster=roster, seat=2), console, 0.0)
    made.said = said
    yield made
    channel.close()


def tell(pacing, *seconds):
    for worker, took in enumerate(seconds):
        struct.pack_into("=QdqIId", pacing._started.channel.memory, worker * PAGE, 2, 1.0, 7, 0, 0, took)


def look(pacing, until):
    while pacing.deadline <= until:
        pacing.look(range(4), pacing.deadline)


def test_a_slow_rank_is_told_with_its_host_and_factor_once_and_when_it_recovers(pacing):
    tell(pacing, 0.2, 0.2, 0.5, 0.2)
    look(pacing, 300)
    tell(pacing, 0.2, 0.2, 0.2, 0.2)
    look(pacing, 600)

    assert pacing.said == [
        ("straggler", {"rank": 10, "factor": 2.5, "recovered": False}),
        ("WARNING", "rank 10 on gpu2 is slow: its steps take 2.5 times as long as others'"),
        ("straggler", {"rank": 10, "factor": 1.0, "recovered": True}),
        ("INFO", "rank 10 on gpu2 is as fast as the others again"),
    ]


def test_looks_are_seldom_where_nobody_tells_of_steps(pacing):
    assert pacing.deadline == SECONDS
    pacing.look(range(4), 30.0)
    assert pacing.deadline == 30.0 + SELDOM

    tell(pacing, 0.2, 0.2, 0.2, 0.2)
    pacing.look(range(4), 90.0)
    assert pacing.deadline == 90.0 + PERIOD
