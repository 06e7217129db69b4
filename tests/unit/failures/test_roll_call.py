"""After a failure: clocks are compared, the order of failures follows, and no node waits without need."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.cluster.job_state import DECIDING, JobState
from flota.cluster.node_record import DEAD, DONE, FAILED, RUNNING, SERVING
from flota.failures import roll_call
from flota.failures.roll_call import DOUBT, IN_FULL, KIND, SETTLE, answer, clock_offset, decide, in_full, in_order
from flota.job.causes import NOT_STARTED
from flota.job.report import FailedWorker
from flota.job.spec import RestartPolicy
from flota.job.survey_outcomes import EndJob, NodeLeaves, NodesLost, Question, Restart, Wait
from flota.supervise.restart_policy import History
from tests.surveys import ASKED_AT, EPOCH, present_of, survey_of

ROLL_CALL = Question(1, KIND)
RESTARTS = RestartPolicy(2, enabled=True)
LEAVES = RestartPolicy(3, enabled=True, elastic_level=0)
ONCE = RestartPolicy()
AGREES = EPOCH + ASKED_AT + 0.01
GONE = roll_call.RollCallAnswer(AGREES, swept=True)


def failure(rank, at=9.0, code=1, cause="exited", **facts):
    return FailedWorker(
        rank, 0, f"host{rank}", 1, code, cause, "exit code 1", 1.0, "log", ("said",), at=EPOCH + at, **facts
    )


def failed(node, *failures, said=0, **facts):
    return present_of(node, said=said, state=FAILED, failures=failures, **facts)


def alive(node, state=RUNNING):
    return present_of(node, state=state)


def call(*present, answers=None, **facts):
    """All nodes have answered, and their workers are gone, unless it is said."""
    answers = {one.node: GONE for one in present} if answers is None else answers
    return survey_of(ROLL_CALL, list(present), answers, **facts)


@pytest.mark.parametrize("skew", [-5.0, -0.5, 0.5, 5.0])
def test_times_are_compared_by_the_clock_of_the_coordinator(skew):
    first, second = failed("a", failure(0, 9.0 + skew)), failed("b", failure(1, 9.1))
    survey = call(
        second, first, answers={"a": roll_call.RollCallAnswer(AGREES + skew), "b": roll_call.RollCallAnswer(AGREES)}
    )

    assert [(node, round(one.at - EPOCH, 3)) for node, one in in_order(survey)] == [("a", 9.0), ("b", 9.1)]


def test_clocks_that_may_agree_are_not_corrected():
    survey = call(
        alive("a"),
        alive("b"),
        answers={"a": roll_call.RollCallAnswer(AGREES - 0.009), "b": roll_call.RollCallAnswer(AGREES + 0.009)},
    )

    assert (clock_offset("a", survey), clock_offset("b", survey)) == (0.0, 0.0)


def test_a_late_answer_means_that_the_call_arrived_late():
    answers = {"a": roll_call.RollCallAnswer(AGREES), "b": roll_call.RollCallAnswer(EPOCH + ASKED_AT + 5.0 + 1.99)}
    heard_at = {"a": ASKED_AT + 0.02, "b": ASKED_AT + 2.0}

    assert clock_offset("b", call(alive("a"), alive("b"), answers=answers, heard_at=heard_at)) == pytest.approx(5.0)


def test_a_coordinator_that_did_not_call_the_roll_compares_nothing():
    survey = call(alive("a"), answers={"a": roll_call.RollCallAnswer(99.0)}, epoch=None)

    assert clock_offset("a", survey) == 0.0


def test_of_two_at_the_same_time_the_store_has_the_order():
    survey = call(failed("b", failure(1), said=8), failed("a", failure(0), said=7))

    assert [node for node, _ in in_order(survey)] == ["a", "b"]


@pytest.mark.parametrize(
    ("present", "answers", "policy", "wait"),
    [
        ([failed("a", failure(0)), alive("b")], {"a": GONE, "b": GONE}, ONCE, 0.0),
        ([failed("a", failure(0)), alive("b")], {"a": GONE, "b": roll_call.RollCallAnswer(AGREES)}, RESTARTS, 0.0),
        ([failed("a", failure(0)), alive("b")], {"a": GONE, "b": roll_call.RollCallAnswer(AGREES)}, ONCE, SETTLE),
        (
            [failed("a", failure(0, is_secondary=True)), alive("b")],
            {"a": GONE, "b": roll_call.RollCallAnswer(AGREES)},
            RESTARTS,
            DOUBT,
        ),
        ([failed("a", failure(0, is_secondary=True)), alive("b")], {"a": GONE, "b": GONE}, RESTARTS, 0.0),
        ([failed("a", failure(0)), failed("b", failure(1))], {"b": GONE}, RESTARTS, SETTLE),
        ([failed("a", failure(0)), failed("b", failure(1))], {"a": GONE, "b": GONE}, RESTARTS, 0.0),
        ([failed("a", failure(0)), alive("b", DEAD)], {"a": GONE}, ONCE, 0.0),
    ],
)
def test_it_waits_no_longer_than_it_takes_to_know(present, answers, policy, wait):
    survey = call(*present, answers=answers, policy=policy)
    outcome = decide(survey)

    assert outcome == Wait(survey.now + wait) if wait else isinstance(outcome, EndJob | Restart)
    assert isinstance(decide(survey._replace(now=survey.now + wait)), EndJob | Restart)


def test_a_suspect_of_another_node_is_to_blame_where_all_others_failed_as_a_consequence():
    knows = GONE._replace(failures=(failure(1, 9.5, code=-15, asked_to_stop=True),))
    survey = call(failed("a", failure(0, is_secondary=True)), alive("b"), answers={"a": GONE, "b": knows})

    assert [node for node, _ in in_order(survey)] == ["b", "a"]


@pytest.mark.parametrize(("reached", "restarts"), [(7, False), (8, True)])
def test_progress_is_what_any_rank_of_any_node_has_reached(reached, restarts):
    job = JobState(DECIDING, past=History(quick=4, same=4, kind="exited 1", best=7))
    answers = {"a": GONE, "b": GONE._replace(reached=reached)}

    outcome = decide(
        call(failed("a", failure(0)), alive("b"), answers=answers, job=job, policy=RestartPolicy(9, enabled=True))
    )

    assert isinstance(outcome, Restart) is restarts
    if restarts:
        assert (outcome.culprit.step, outcome.history.best) == (-1, reached)


def test_a_job_ending_names_all_failures_but_only_some_in_full():
    named = in_full([failure(rank) for rank in range(IN_FULL + 5)])

    assert len(named) == IN_FULL + 5
    assert (named[0].said, named[-1].said, named[-1].ending) == (("said",), (), "exit code 1")


@pytest.mark.parametrize("state", [RUNNING, SERVING])
def test_a_node_that_runs_or_serves_is_waited_for_until_it_answers(state):
    present = failed("a", failure(0)), alive("b", state)
    silent = call(*present, answers={"a": GONE})

    assert decide(silent) == Wait(ASKED_AT + silent.late_after)
    assert decide(silent._replace(lost=("b",))) == NodesLost(("b",))
    assert isinstance(decide(silent._replace(now=ASKED_AT + silent.late_after)), EndJob)
    assert isinstance(decide(call(*present)), EndJob)


def test_a_node_that_has_finished_can_add_to_the_report_but_is_not_needed():
    survey = call(failed("a", failure(0)), alive("b", DONE), answers={"a": GONE}, done={"b"})
    without = {node: one for node, one in survey.present.items() if node != "b"}

    assert decide(survey) == Wait(survey.now + SETTLE)
    assert isinstance(decide(survey._replace(present=without)), EndJob)


@pytest.mark.parametrize("last", [RUNNING, DEAD])
def test_a_node_that_is_lost_after_its_answer_does_not_explain_the_failure(last):
    answers = {"a": GONE} if last == DEAD else {"a": GONE, "b": GONE}
    outcome = decide(call(failed("a", failure(0)), alive("b", last), answers=answers, lost=("b",)))

    assert isinstance(outcome, EndJob)
    assert outcome.ending.failures[0].rank == 0


def test_what_cannot_start_is_not_restarted():
    cannot = failed("a", failure(0, code=127, cause=NOT_STARTED))
    outcome = decide(call(cannot, alive("b"), policy=RESTARTS))

    assert isinstance(outcome, EndJob)
    assert outcome.ending.code == 127


@pytest.mark.parametrize("policy", [RESTARTS, LEAVES])
@pytest.mark.parametrize("final", [True, False])
def test_a_failure_that_is_final_ends_a_job_that_could_go_on(final, policy):
    outcome = decide(call(failed("a", failure(0, role="server", final=final)), alive("b"), policy=policy))

    assert isinstance(outcome, EndJob) is final


def test_at_level_0_a_failed_server_is_named_as_one():
    survey = call(alive("a"), failed("host1", failure(1, role="server")), policy=LEAVES)

    assert decide(survey) == NodeLeaves("host1", "host1 left after server 1 failed")


def test_workers_that_had_finished_are_in_the_ending_unless_they_are_blamed():
    answers = {"a": GONE._replace(ended=(("trainer", 0), ("trainer", 2))), "b": GONE}
    outcome = decide(call(failed("a", failure(0)), alive("b"), answers=answers))

    assert outcome.ending.ended == (("trainer", 2),)


# What a node answers.

OWN = FailedWorker(0, 0, "host0", 1, 3, "exited", "exit code 3", 1.0, "log")
OTHER = OWN._replace(rank=1, node="host1")


@pytest.fixture
def node():
    """Its clock goes on by a second whenever it is read, its workers have reported step 118, and it keeps replies."""
    clock = iter(range(100, 200))
    replies: list[roll_call.RollCallAnswer] = []
    evidence = SimpleNamespace(
        reached=lambda: 118,
        last=SimpleNamespace(roster=SimpleNamespace(round=0)),
        found=(OWN,),
        suspects=lambda: [OWN._replace(asked_to_stop=True)],
        succeeded=lambda: (("trainer", 2),),
    )
    return SimpleNamespace(
        roll_call=Question(0, ""),
        roll_call_answer=roll_call.RollCallAnswer(0.0),
        time_of_day=lambda: float(next(clock)),
        evidence=evidence,
        failure_reported=True,
        follower=SimpleNamespace(job_state=JobState(DECIDING, failures=(OTHER,))),
        reply=lambda _, body: replies.append(body),
        replies=replies,
    )


def test_it_tells_its_clock_and_its_furthest_step_at_once_and_the_rest_when_its_workers_are_gone(node):
    answer(node, Question(1, KIND), False)  # noqa: FBT003  a row's signature
    answer(node, Question(1, KIND), True)  # noqa: FBT003

    first, last = node.replies
    assert first == roll_call.RollCallAnswer(100.0, 118)
    assert last == roll_call.RollCallAnswer(100.0, 118, (OWN,), (("trainer", 2),), swept=True)


def test_the_next_roll_call_is_answered_with_another_time(node):
    answer(node, Question(1, KIND), False)  # noqa: FBT003
    answer(node, Question(2, KIND), False)  # noqa: FBT003

    assert [one.clock for one in node.replies] == [100.0, 101.0]


@pytest.mark.parametrize(("is_secondary", "found"), [(True, (OWN._replace(asked_to_stop=True),)), (False, ())])
def test_a_node_without_failures_names_suspects_where_all_others_failed_as_a_consequence(node, is_secondary, found):
    node.failure_reported = False
    node.follower.job_state = JobState(DECIDING, failures=(OTHER._replace(is_secondary=is_secondary),))

    answer(node, Question(1, KIND), True)  # noqa: FBT003

    assert node.replies[-1].failures == found


def test_what_it_knows_of_another_round_is_not_reported(node):
    node.evidence.last.roster.round = 4

    answer(node, Question(1, KIND), True)  # noqa: FBT003

    assert node.replies == [roll_call.RollCallAnswer(100.0, 118, swept=True)]
