"""What people are told of the chair's notices."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.rendezvous.notices import GATHERING, RUNNING, Notice, Refused, SlowRow
from flota.run.tidings import Tidings

HOST3 = {"n3": Refused("host3", "the job has all of its 2 nodes")}
SLOW = SlowRow(5, "gpu1", 2.1)


@pytest.fixture
def told():
    """What is said of notices that come in one go, after others."""
    said = []
    console = SimpleNamespace(say=lambda _level, text: said.append(text), event=lambda *_, **__: None)
    tidings = Tidings(console, None)

    def tell(*notices):
        said.clear()
        node = SimpleNamespace(name="n1", ending=None, working=True, notice=notices[-1])
        tidings.tell(SimpleNamespace(node=node, heard=list(notices), silent_since=None), 0.0)
        return list(said)

    return tell


def test_a_notice_that_comes_with_the_one_before_it_does_not_hide_it(told):
    assert told(Notice(RUNNING), Notice(RUNNING, refused=HOST3), Notice(RUNNING)) == [
        "host3 was turned away: the job has all of its 2 nodes"
    ]


def test_slow_ranks_are_told_of_once_and_again_when_they_recover(told):
    assert told(Notice(RUNNING), Notice(RUNNING, slow=(SLOW,)), Notice(RUNNING, slow=(SLOW,), refused=HOST3)) == [
        "rank 5 on gpu1 is slow: its steps take 2.1 times as long as the others'",
        "host3 was turned away: the job has all of its 2 nodes",
    ]
    assert told(Notice(RUNNING)) == ["rank 5 on gpu1 is as fast as the others again"]


def test_a_slow_rank_has_not_recovered_because_its_round_has_ended(told):
    assert told(Notice(RUNNING), Notice(RUNNING, slow=(SLOW,)), Notice(GATHERING, round=1)) == [
        "rank 5 on gpu1 is slow: its steps take 2.1 times as long as the others'"
    ]
