"""Node records and surveys for tests of questions."""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import replace

from flota.cluster.job_state import DECIDING, JobState, take_seat
from flota.cluster.node_record import RUNNING, Answer, NodeRecord, Present
from flota.cluster.survey import Survey
from flota.cluster.terms import Terms
from flota.job.survey_outcomes import Question
from tests.rosters import ports_of

ASKED_AT = 10.0
EPOCH = 1_000_000.0  # converts the coordinator's time to a time of day


def record_of(host: str = "host0", **facts) -> NodeRecord:
    record = NodeRecord("job", host, "10.0.0.1", ports_of(1, 2, 3, 4), 2, 2, ("torch",), state=RUNNING)
    return replace(record, **facts)


def present_of(host: str, *, said: int = 0, **facts) -> Present:
    return Present(host, 1, record_of(host, **facts), said)


def survey_of(question: Question, present: list[Present], answers: dict, *, policy=None, job=None, **facts) -> Survey:
    """A survey of these nodes; those in `answers` have answered after 20 ms."""
    terms = Terms("job", len(present), len(present), ("torch",), *([policy] if policy else []))
    seats = tuple(take_seat(one.node, one.record) for one in present)
    survey = Survey(
        question=question,
        job=replace(job or JobState(DECIDING), seats=seats, question=question),
        terms=terms,
        present={one.node: one for one in present},
        answers=answers,
        heard_at=dict.fromkeys(answers, ASKED_AT + 0.02),
        lost=(),
        done=(),
        asked_at=ASKED_AT,
        now=ASKED_AT + 0.02,
        epoch=EPOCH,
        late_after=6.0,
    )
    return survey._replace(**facts)


def answer_of(number: int, kind: str, body: bytes) -> Answer:
    return Answer(number, kind, Raw(body))
