"""One node's part in the job, where no story in tests/scenarios shows it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flota.cluster import node_record
from flota.cluster.follower import (
    DONE_OUTAGE,
    FAILING_LIMIT,
    AnswerQuestion,
    Begin,
    Follower,
    Offer,
    Recall,
    ResumeRound,
)
from flota.cluster.job_state import DECIDING, GATHERING, RUNNING, JobState
from flota.cluster.node_record import NodeRecord
from flota.cluster.questions import ROLL_CALL, STACKS
from flota.failures import roll_call
from flota.hangs.question import POSITIONS, PositionsAnswer
from flota.job.report import FailedWorker, PastRestart
from flota.job.roster import NO_PORTS, Seat
from flota.job.spec import RestartPolicy
from flota.job.survey_outcomes import Question
from tests.rosters import ports_of

SEATS = (
    Seat("own", "host0", "10.0.0.1", ports_of(1, 2, 3, 4)),
    Seat("other", "host1", "10.0.0.2", ports_of(1, 2, 3, 4)),
)
FAULT = FailedWorker(0, 0, "host1", 1, 3, "exited", "exit code 3", 1.0, "log")


def asking(number, kind, phase=DECIDING):
    return JobState(phase, seats=SEATS, failures=(FAULT,), asked=number, question=Question(number, kind))


def advance(node, *job_states):
    for job_state in job_states:
        node.receive_state(job_state)
    return node.advance(0.0, None, "nowhere")


@pytest.fixture
def working():
    """A node whose workers run."""
    node = Follower(
        "own", NodeRecord("job", "host0", "10.0.0.1", NO_PORTS, 2, 2, ("torch",)), join_timeout=60, outage_limit=3
    )
    assert advance(node) == [Offer(0)]
    node.offered(ports_of(1, 2, 3, 4), 0)
    running = JobState(RUNNING, seats=SEATS)
    assert advance(node, running) == [Begin(running, 0)]
    return node


def test_a_restart_is_expected_while_any_are_left_and_the_job_goes_on(working):
    on, off = RestartPolicy(3, enabled=True), RestartPolicy()
    expected = [working.expects_restart(policy) for policy in (on, off)]

    failure, request = PastRestart(0, 0.0, "rank 1 SIGKILL"), PastRestart(0, 0.0, "restart requested", counted=False)
    advance(working, JobState(GATHERING, round=1, attempt=3, seats=SEATS, restarts=(request, failure)))
    next_round = [working.expects_restart(policy) for policy in (on, off)]
    advance(working, JobState(GATHERING, round=2, attempt=3, seats=SEATS, restarts=(failure, request)))
    on_request = working.expects_restart(on)  # healthy ranks have the whole grace period
    working.give_up("no ports")

    assert expected == [True, False]
    assert next_round == [True, True]
    assert not on_request
    assert not working.expects_restart(on)


def test_a_serving_node_answers_the_roll_call_and_stops_its_workers(working):
    working.report_serving()
    state = asking(1, ROLL_CALL)

    assert advance(working, state) == [AnswerQuestion(state.question, workers_gone=False)]
    working.reply(state.question, roll_call.RollCallAnswer(1.0))
    assert (working.record.state, working.record.answer.id) == (node_record.SERVING, 1)
    assert advance(working) == [Recall()]
    assert advance(working) == [], "once"


def test_a_node_that_finds_itself_serving_while_the_roll_is_called_has_answered(working):
    state = asking(1, ROLL_CALL)
    advance(working, state)
    working.reply(state.question, roll_call.RollCallAnswer(1.0))
    working.report_serving()

    assert working.record.answer.id == 1


def test_a_question_is_put_once_and_again_when_the_workers_are_gone(working):
    state = asking(1, STACKS)

    assert advance(working, state) == [AnswerQuestion(state.question, workers_gone=False)]
    assert advance(working, state) == []
    working.workers_ended(succeeded=False)
    assert advance(working) == [AnswerQuestion(state.question, workers_gone=True)]
    assert advance(working) == []


@pytest.mark.parametrize(("succeeded", "limit"), [(True, DONE_OUTAGE), (False, 3.0)])
def test_a_node_that_is_done_waits_longer_for_a_silent_store(working, succeeded, limit):
    """A lossy network, or a master that was stopped: the others may succeed, and so must this node."""
    working.workers_ended(succeeded=succeeded)

    working.advance(limit - 0.1, 0.0, "nowhere")
    assert working.ending is None
    working.advance(limit, 0.0, "nowhere")
    assert working.ending.code == 75


def test_a_store_that_refuses_requests_for_a_minute_ends_the_job(working):
    working.advance(FAILING_LIMIT - 0.1, None, "nowhere", 0.0)
    assert working.ending is None

    working.advance(FAILING_LIMIT, None, "nowhere", 0.0)
    assert (working.ending.code, working.ending.reason) == (75, "the store failed: nowhere")


def test_a_reply_to_another_question_is_not_sent(working):
    advance(working, asking(1, STACKS), asking(2, STACKS))
    working.reply(Question(1, STACKS), PositionsAnswer())

    assert working.record.answer is None


def test_a_node_that_leaves_does_not_say_that_it_serves(working):
    working.stop(15, 0.0)
    working.report_serving()

    assert working.record.state == node_record.LEAVING


@pytest.mark.parametrize(("kind", "phase"), [(STACKS, DECIDING), (POSITIONS, RUNNING), (ROLL_CALL, DECIDING)])
def test_a_node_that_waits_for_a_seat_is_asked_nothing(kind, phase):
    node = Follower(
        "late", NodeRecord("job", "host2", "10.0.0.3", NO_PORTS, 2, 3, ("torch",)), join_timeout=60, outage_limit=3
    )
    advance(node)
    node.offered(ports_of(1, 2, 3, 4), 0)

    assert advance(node, asking(1, kind, phase)) == []


def test_a_job_that_makes_progress_after_all_continues(working):
    working.report_idle(90.0, 60.0)
    advance(working, asking(1, STACKS))
    assert advance(working, JobState(RUNNING, seats=SEATS)) == [], "that was before"

    assert advance(working, JobState(RUNNING, seats=SEATS, asked=1)) == [ResumeRound()]
    assert (working.record.state, working.record.idle) == (node_record.RUNNING, 0.0)
    assert advance(working) == []


def test_a_question_beside_a_running_round_leaves_the_workers_alone(working):
    state = asking(1, POSITIONS, RUNNING)

    assert advance(working, state) == [AnswerQuestion(state.question, workers_gone=False)]
    assert advance(working, JobState(RUNNING, seats=SEATS, asked=1)) == []


def test_a_node_that_is_done_answers_and_stays_done(working):
    working.workers_ended(succeeded=True)
    state = asking(1, STACKS)

    assert advance(working, state) == [AnswerQuestion(state.question, workers_gone=True)]
    working.reply(state.question, PositionsAnswer())

    assert (working.record.state, working.record.answer.id) == (node_record.DONE, 1)


def test_nothing_can_be_asked_for_where_no_workers_run(working):
    assert working.request(POSITIONS) == 0
    assert working.record.requests == {POSITIONS: 0}
    working.workers_ended(succeeded=True)
    assert working.request(POSITIONS) is None


def test_a_question_of_an_unknown_kind_is_ignored(working):
    assert advance(working, asking(1, "weather")) == []
    assert working.job_state.question is None


def test_a_question_of_the_next_round_is_put_whatever_its_number(working):
    advance(working, asking(1, STACKS))
    working.workers_ended(succeeded=False)
    assert advance(working, JobState(GATHERING, 1, seats=SEATS)) == [Offer(1)]
    working.offered(ports_of(1, 2, 3, 4), 1)
    advance(working, JobState(RUNNING, 1, seats=SEATS))
    state = replace(asking(1, STACKS), round=1)

    assert advance(working, state) == [AnswerQuestion(state.question, workers_gone=False)]
