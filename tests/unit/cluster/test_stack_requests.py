"""Where all ranks of a job stand, because somebody has asked."""

from __future__ import annotations

import pytest
from flota.cluster.stack_requests import ANSWER_TIME, Looks
from msgspec.structs import replace

from flota.cluster.job_state import RUNNING as ROUND_RUNS
from flota.cluster.job_state import JobState
from flota.cluster.node_record import DONE, RUNNING, NodeRecord, Present
from flota.hangs.wait_sites import RankPosition
from tests.rosters import ports_of


class Table:
    """Three nodes of one rank each."""

    def __init__(self):
        blank = NodeRecord("job", "", "a", ports_of(1, 2, 3, 4), 3, 3, (), state=RUNNING)
        self.records = [replace(blank, host=f"gpu{rank}") for rank in range(3)]
        self.looks = Looks()
        self.job_state = JobState(ROUND_RUNS)

    def say(self, rank, **facts):
        self.records[rank] = replace(self.records[rank], **facts)

    def answer(self, rank, look, words="in all_reduce at train.py:88"):
        kind = "collective" if "all_reduce" in words else "elsewhere"
        self.say(rank, looked=look, seen=(RankPosition(rank, kind, words, "trainer", f"gpu{rank}", 0, 0, 7, "", 0.0),))

    def look(self, now):
        records = [Present(record.host, 1, record) for record in self.records]
        self.job_state = self.looks.look(self.job_state, records, now)
        return self.job_state.look, self.job_state.looked


@pytest.fixture
def table():
    return Table()


def test_nobody_looks_unasked(table):
    assert table.look(0.0) == (0, 0)
    assert table.looks.deadline is None


def test_all_nodes_are_asked_and_heard(table):
    table.say(1, asks=1)
    assert table.look(0.0) == (1, 0)

    for rank, words in ((0, "in all_reduce at train.py:88"), (2, "in next(loader) at data.py:41")):
        table.answer(rank, 1, words)
    assert table.look(1.0) == (1, 0)
    assert table.looks.deadline == ANSWER_TIME
    table.answer(1, 1)

    assert table.look(2.0) == (1, 1)
    assert table.looks.deadline is None
    assert table.job_state.places == (
        "2 of 3 ranks: in all_reduce at train.py:88",
        "rank 2 on gpu2: in next(loader) at data.py:41",
        "if this is a hang: rank 2 on gpu2 makes the others wait",
    )


def test_who_does_not_answer_is_named(table):
    table.say(0, asks=1)
    table.look(0.0)
    table.answer(0, 1)
    table.answer(2, 1)

    assert table.look(ANSWER_TIME) == (1, 1)
    assert table.job_state.places[-1] == "no answer from gpu1"


def test_who_is_done_is_not_waited_for(table):
    table.say(0, asks=1)
    table.say(1, state=DONE)
    table.look(0.0)
    table.answer(0, 1)
    table.answer(2, 1)

    assert table.look(1.0) == (1, 1)


def test_the_next_question_is_answered_anew(table):
    table.say(0, asks=1)
    table.look(0.0)
    for rank in range(3):
        table.answer(rank, 1)
    table.look(1.0)
    table.say(2, asks=2)

    assert table.look(20.0) == (2, 1)
    assert table.look(20.0 + ANSWER_TIME / 2) == (2, 1)
    for rank in range(3):
        table.answer(rank, 2, "in save at train.py:90")
    assert table.look(26.0) == (2, 2)
    assert table.job_state.places[0] == "all 3 ranks: in save at train.py:90"
