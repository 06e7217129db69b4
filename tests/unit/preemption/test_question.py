"""All workers of a job stop at one step that none has passed, or none of them has saved the job."""

from __future__ import annotations

import pytest

from flota.job.report import STOPPED
from flota.job.survey_outcomes import AskAgain, EndJob, Question, Wait
from flota.preemption.question import ANSWER_TIME, GRACEFULLY, KIND, OTHERWISE, StopAnswer, decide
from flota.preemption.stop_step import NOW
from tests.surveys import ASKED_AT, present_of, survey_of

HOSTS = ("a", "b", "c")
SAVED, UNSAVED = StopAnswer(stopped=GRACEFULLY), StopAnswer(stopped=OTHERWISE)


def asked(*answers, argument="", **facts):
    """None: a node that has not answered."""
    known = {host: answer for host, answer in zip(HOSTS, answers, strict=True) if answer}
    return survey_of(Question(1, KIND, argument), [present_of(host) for host in HOSTS], known, **facts)


def test_the_stop_step_is_as_far_as_the_fastest_gets_until_all_are_asked():
    answers = StopAnswer(step=7, pace=2.0), StopAnswer(step=9, pace=1.0), StopAnswer(step=8)

    assert decide(asked(*answers)) == AskAgain(str(9 + 2 + 4))


def test_nodes_without_workers_that_report_steps_have_no_opinion():
    assert decide(asked(StopAnswer(step=7), StopAnswer(), StopAnswer())) == AskAgain("9")
    assert decide(asked(StopAnswer(), StopAnswer(), StopAnswer())) == AskAgain(str(NOW))
    assert decide(asked(StopAnswer(step=7), StopAnswer(step=NOW), StopAnswer())) == AskAgain(str(NOW))


def test_a_finished_node_is_not_asked():
    assert decide(asked(StopAnswer(step=7), StopAnswer(step=7), None, done={"c"})) == AskAgain("9")


@pytest.mark.parametrize("how", ["cannot", "silent", "lost"])
def test_if_one_cannot_stop_at_a_step_no_node_has_saved_the_job(how):
    answers = [StopAnswer(step=7), StopAnswer(can_stop=False) if how == "cannot" else None, StopAnswer(step=8)]
    survey = asked(*answers, lost=("b",) if how == "lost" else ())
    if how == "silent":
        assert decide(survey) == Wait(ASKED_AT + ANSWER_TIME)
        survey = survey._replace(now=ASKED_AT + ANSWER_TIME)

    outcome = decide(survey)

    assert isinstance(outcome, EndJob)
    assert (outcome.ending.kind, outcome.ending.code, outcome.ending.signal) == (STOPPED, 143, 15)


def test_the_nodes_know_best_how_long_their_workers_may_take():
    assert decide(asked(SAVED, StopAnswer(), SAVED, argument="9", now=ASKED_AT + 3600.0)) == Wait()


@pytest.mark.parametrize(
    ("answers", "facts", "code"),
    [
        ((SAVED, SAVED, SAVED), {}, 75),
        ((SAVED, SAVED, None), {"done": {"c"}}, 75),
        ((SAVED, UNSAVED, SAVED), {}, 143),
        ((SAVED, SAVED, None), {"lost": ("c",)}, 143),
    ],
)
def test_the_job_is_saved_if_all_have_saved(answers, facts, code):
    ending = decide(asked(*answers, argument="9", **facts)).ending

    assert (ending.kind, ending.code, ending.signal) == (STOPPED, code, 15)
