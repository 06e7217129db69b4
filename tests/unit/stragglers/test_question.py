"""How far all ranks of a job are, in a line."""

from __future__ import annotations

import pytest

from flota.cluster.node_record import DONE, RUNNING, SERVING
from flota.job.report import NO_STEP
from flota.job.survey_outcomes import Publish, Question, Wait
from flota.stragglers.detector import StepTime
from flota.stragglers.question import ANSWER_TIME, KIND, StepsAnswer, decide, is_sound, steps_in_words
from tests.surveys import ASKED_AT, present_of, survey_of


def at(*steps, seconds=0.2, role="trainer"):
    return [StepTime(rank, seconds, role, step) for rank, step in enumerate(steps)]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (at(1200, 1200, 1200), ["steps: all 3 ranks at 1200, 0.2 s per step"]),
        (at(1200), ["steps: rank 0 at 1200, 0.2 s per step"]),
        (at(1200, 1180, 1190), ["steps: 1180 (rank 1) to 1200, 0.2 s per step"]),
        (at(1180, 1180, 1200), ["steps: 1180 (ranks 0-1) to 1200, 0.2 s per step"]),
        (at(3, 3, seconds=0.0), ["steps: all 2 ranks at 3"]),
        ([*at(9, 9, 9), StepTime(3, 0.9, step=9)], ["steps: all 4 ranks at 9, 0.2 s per step; rank 3 takes 0.9 s"]),
        (
            [*at(7, 7), StepTime(0, 0.1, "server", 5), StepTime(1, 0.1, "server", 5)],
            ["steps: all 2 ranks at 7, 0.2 s per step", "steps: all 2 servers at 5, 0.1 s per step"],
        ),
        ([*at(7, 7), StepTime(2, 0.0)], ["steps: 2 of 3 ranks at 7, 0.2 s per step"]),
        (at(NO_STEP, NO_STEP, seconds=0.0), []),
        ([], []),
    ],
)
def test_steps_in_words(rows, lines):
    assert list(steps_in_words(rows)) == lines


def test_of_many_slow_ranks_four_are_named():
    rows = [*at(*[9] * 10), *(StepTime(rank, 0.9, step=9) for rank in range(10, 16))]

    [line] = steps_in_words(rows)

    assert line.endswith("; rank 10 takes 0.9 s; rank 11 takes 0.9 s; rank 12 takes 0.9 s; rank 13 takes 0.9 s")


def test_nodes_at_work_are_waited_for_and_named_if_they_are_silent():
    """A node that only serves has no steps to report."""
    states = {"a": RUNNING, "b": DONE, "c": SERVING, "d": RUNNING}
    present = [present_of(node, state=state) for node, state in states.items()]
    some = survey_of(Question(1, KIND), present, {"a": StepsAnswer(tuple(at(7)))})
    silent = next(one.record.host for one in present if one.node == "d")

    assert decide(some) == Wait(ASKED_AT + ANSWER_TIME)
    assert decide(some._replace(now=ASKED_AT + ANSWER_TIME)) == Publish(
        ("steps: rank 0 at 7, 0.2 s per step", f"no answer from {silent}")
    )
    assert isinstance(decide(some._replace(answers={**some.answers, "d": StepsAnswer()})), Publish)


@pytest.mark.parametrize("bad", [{"seconds": -1.0}, {"seconds": 1e300}, {"seconds": float("nan")}, {"role": "\x1b[2J"}])
def test_steps_that_cannot_be_are_refused(bad):
    assert is_sound(StepsAnswer((StepTime(0, 0.2, step=7),)))
    assert not is_sound(StepsAnswer((StepTime(0, 0.2, step=7)._replace(**bad),)))
