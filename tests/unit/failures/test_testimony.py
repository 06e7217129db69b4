"""What a node answers to a roll call."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.cluster.job_state import DECIDING, JobState
from flota.failures import roll_call
from flota.failures.roll_call import KIND
from flota.failures.testimony import answer_roll_call
from flota.job.report import FailedWorker
from flota.job.survey import Question

OWN = FailedWorker(0, 0, "host0", 1, 3, "exited", "exit code 3", 1.0, "log")
OTHER = OWN._replace(rank=1, node="host1")


@pytest.fixture
def node():
    """Its clock goes on by a second whenever it is read, its workers have reported step 118, and it keeps replies."""
    clock = iter(range(100, 200))
    replies: list[roll_call.Testimony] = []
    evidence = SimpleNamespace(
        reached=lambda: 118,
        last=SimpleNamespace(roster=SimpleNamespace(round=0)),
        found=(OWN,),
        suspects=lambda: [OWN._replace(asked_to_stop=True)],
        succeeded=lambda: (("trainer", 2),),
    )
    return SimpleNamespace(
        roll_call=Question(0, ""),
        testimony=roll_call.Testimony(0.0),
        time_of_day=lambda: float(next(clock)),
        evidence=evidence,
        failure_reported=True,
        follower=SimpleNamespace(job_state=JobState(DECIDING, failures=(OTHER,))),
        reply=lambda _, body: replies.append(body),
        replies=replies,
    )


def test_it_tells_its_clock_and_its_furthest_step_at_once_and_the_rest_when_its_workers_are_gone(node):
    answer_roll_call(node, Question(1, KIND), False)  # noqa: FBT003  a row's signature
    answer_roll_call(node, Question(1, KIND), True)  # noqa: FBT003

    first, last = node.replies
    assert first == roll_call.Testimony(100.0, 118)
    assert last == roll_call.Testimony(100.0, 118, (OWN,), (("trainer", 2),), swept=True)


def test_the_next_roll_call_is_answered_with_another_time(node):
    answer_roll_call(node, Question(1, KIND), False)  # noqa: FBT003
    answer_roll_call(node, Question(2, KIND), False)  # noqa: FBT003

    assert [one.clock for one in node.replies] == [100.0, 101.0]


@pytest.mark.parametrize(("is_secondary", "found"), [(True, (OWN._replace(asked_to_stop=True),)), (False, ())])
def test_a_node_without_failures_names_suspects_where_all_others_failed_as_a_consequence(node, is_secondary, found):
    node.failure_reported = False
    node.follower.job_state = JobState(DECIDING, failures=(OTHER._replace(is_secondary=is_secondary),))

    answer_roll_call(node, Question(1, KIND), True)  # noqa: FBT003

    assert node.replies[-1].failures == found


def test_what_it_knows_of_another_round_is_not_told(node):
    node.evidence.last.roster.round = 4

    answer_roll_call(node, Question(1, KIND), True)  # noqa: FBT003

    assert node.replies == [roll_call.Testimony(100.0, 118, swept=True)]
