"""What people are told of the coordinator's job states."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.cluster.job_state import GATHERING, RUNNING, JobState, Refused
from flota.cluster.messages import ClusterMessages
from flota.stragglers.detector import SlowRank

HOST3 = {"n3": Refused("host3", "the job already has all 2 nodes")}
SLOW = SlowRank(5, "gpu1", 2.1)


@pytest.fixture
def told():
    """What is said of job states that come in one go, after others."""
    said = []
    console = SimpleNamespace(say=lambda _level, text: said.append(text), event=lambda *_, **__: None)
    messages = ClusterMessages(console, None)

    def tell(*job_states):
        said.clear()
        follower = SimpleNamespace(name="n1", ending=None, working=True, job_state=job_states[-1])
        messages.report(
            SimpleNamespace(follower=follower, new_states=list(job_states), silent_since=None, failing_since=None), 0.0
        )
        return list(said)

    return tell


def test_a_job_state_that_comes_with_the_one_before_it_does_not_hide_it(told):
    assert told(JobState(RUNNING), JobState(RUNNING, refused=HOST3), JobState(RUNNING)) == [
        "host3 was refused: the job already has all 2 nodes"
    ]


def test_slow_ranks_are_reported_once_and_again_when_they_recover(told):
    assert told(JobState(RUNNING), JobState(RUNNING, slow=(SLOW,)), JobState(RUNNING, slow=(SLOW,), refused=HOST3)) == [
        "rank 5 on gpu1 is slow: its steps take 2.1 times as long as those of the other ranks",
        "host3 was refused: the job already has all 2 nodes",
    ]
    assert told(JobState(RUNNING)) == ["rank 5 on gpu1 is as fast as the other ranks again"]


def test_a_slow_rank_has_not_recovered_because_its_round_has_ended(told):
    assert told(JobState(RUNNING), JobState(RUNNING, slow=(SLOW,)), JobState(GATHERING, round=1)) == [
        "rank 5 on gpu1 is slow: its steps take 2.1 times as long as those of the other ranks"
    ]
