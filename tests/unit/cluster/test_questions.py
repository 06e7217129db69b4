"""What nodes answer survives the wire; bodies that make no sense are refused with their record."""

from __future__ import annotations

import msgspec
import pytest

from flota.cluster.node_record import encode_record
from flota.cluster.questions import ON_REQUEST, QUESTIONS, ROWS, read_record
from flota.failures import roll_call
from flota.hangs.question import POSITIONS, STACKS, PositionsAnswer
from flota.hangs.wait_sites import RankPosition
from flota.job.report import FailedWorker
from flota.job.survey_outcomes import Question
from flota.preemption import question as preemption
from flota.preemption.question import StopAnswer
from flota.stragglers import question as steps
from flota.stragglers.detector import StepTime
from flota.stragglers.question import StepsAnswer
from tests.surveys import answer_of, record_of

FAULT = FailedWorker(1, 0, "host0", 1, 3, "exited", "exit code 3", 1.0, "log")
POSITION = RankPosition(0, "waits", "in f at train.py:8", "trainer", "host0", 0, 0, 1, "log", 3.0)
ROW = StepTime(0, 0.2, step=7)
SOUND = {
    roll_call.KIND: roll_call.RollCallAnswer(1.0, 118, (FAULT,), (("trainer", 2),), swept=True),
    STACKS: PositionsAnswer((POSITION,), blind=True),
    POSITIONS: PositionsAnswer((POSITION,)),
    preemption.KIND: StopAnswer(step=7, pace=2.0, stopped=preemption.GRACEFULLY),
    steps.KIND: StepsAnswer((ROW,)),
}
UNSOUND = [
    (roll_call.KIND, roll_call.RollCallAnswer(1.0, failures=(FAULT._replace(role="\x07"),))),
    (roll_call.KIND, roll_call.RollCallAnswer(1.0, failures=(FAULT._replace(code=124, cause="hung"),))),
    (roll_call.KIND, roll_call.RollCallAnswer(1.0, ended=(("a\x1b[2J", 0),))),
    *((kind, PositionsAnswer((POSITION._replace(kind="elsewhen"),))) for kind in (STACKS, POSITIONS)),
    (STACKS, PositionsAnswer((POSITION._replace(words="\x1b[31m"),))),
    (STACKS, PositionsAnswer((POSITION._replace(log="a\nb"),))),
    (STACKS, PositionsAnswer((POSITION._replace(host="\x07"),))),
    (preemption.KIND, StopAnswer(stopped="perhaps")),
    (preemption.KIND, StopAnswer(pace=-1.0)),
    (preemption.KIND, StopAnswer(pace=1e308)),
    (preemption.KIND, StopAnswer(step=10**20)),
    (steps.KIND, StepsAnswer((ROW._replace(role="\x1b[2J"),))),
    (steps.KIND, StepsAnswer((ROW._replace(seconds=1e300),))),
]


def sent(kind: str, body: bytes, number: int = 1):
    return read_record("n0", 1, encode_record(record_of(answer=answer_of(number, kind, body))), 7)


def is_unanswered(present) -> bool:
    """The node is there all the same."""
    return present.node == "n0" and present.record.answer is None and present.body is None


def test_every_kind_of_answer_is_tested_here():
    assert set(SOUND) == set(QUESTIONS)


@pytest.mark.parametrize("kind", SOUND)
def test_an_answer_survives_the_wire(kind):
    present = sent(kind, msgspec.json.encode(SOUND[kind]), 3)

    assert (present.node, present.created, present.modified, present.body) == ("n0", 1, 7, SOUND[kind])
    assert present.answers(Question(3, kind))
    assert not present.answers(Question(2, kind)) and not present.answers(Question(3, "another"))


@pytest.mark.parametrize(("kind", "body"), UNSOUND, ids=lambda one: str(one)[:80])
def test_an_unsound_answer_is_not_an_answer(kind, body):
    assert is_unanswered(sent(kind, msgspec.json.encode(body)))


@pytest.mark.parametrize("kind", SOUND)
@pytest.mark.parametrize("body", [b"null", b"3", b'{"a":1}', b'["x"]'], ids=lambda body: len(body))
def test_a_body_of_another_type_is_not_an_answer(kind, body):
    assert is_unanswered(sent(kind, body))


def test_a_body_that_is_nested_too_deeply_is_refused_with_its_record():
    assert sent(steps.KIND, b"[" * 5000 + b"]" * 5000) is None


def test_an_answer_to_a_question_that_there_is_not_is_none():
    assert is_unanswered(sent("weather", b"[]"))


@pytest.mark.parametrize("number", [1 << 31, 1 << 63])
def test_an_answer_whose_number_others_could_not_count_on_from_is_refused(number):
    assert sent(steps.KIND, b"[]", number) is None


def test_a_record_without_an_answer_has_no_body():
    assert read_record("n0", 1, encode_record(record_of()), 7).body is None
    assert read_record("n0", 1, b"{}", 7) is None


def test_only_what_is_not_urgent_is_asked_on_request():
    assert set(ON_REQUEST) == {row.kind for row in ROWS if not row.urgent} == {steps.KIND, POSITIONS}
