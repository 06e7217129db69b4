"""All questions to nodes: one row per kind, the less urgent first."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from flota.cluster.job_state import JobState
from flota.cluster.node_record import NodeRecord, Present, decode_record
from flota.cluster.survey import QuestionRow
from flota.failures import roll_call
from flota.hangs import question as hangs
from flota.hangs.watch import answer_positions, answer_stacks
from flota.preemption import question as preemption
from flota.preemption.stop_step import StopAnswer
from flota.store.decoding import BadMessage, decode_json
from flota.stragglers import question as steps

ROWS = (
    QuestionRow(steps.KIND, steps.StepsAnswer, steps.is_sound, steps.decide, steps.answer, urgent=False),
    QuestionRow(
        hangs.POSITIONS, hangs.PositionsAnswer, hangs.is_sound, hangs.decide_positions, answer_positions, urgent=False
    ),
    QuestionRow(hangs.STACKS, hangs.PositionsAnswer, hangs.is_sound, hangs.decide_stacks, answer_stacks, urgent=True),
    QuestionRow(preemption.KIND, StopAnswer, preemption.is_sound, preemption.decide, preemption.answer, urgent=True),
    QuestionRow(
        roll_call.KIND,
        roll_call.RollCallAnswer,
        roll_call.is_sound,
        roll_call.decide,
        roll_call.answer,
        urgent=True,
        ends_round=True,
    ),
)
QUESTIONS = {row.kind: row for row in ROWS}
ON_REQUEST = tuple(row.kind for row in ROWS if not row.urgent)
STACKS, PREEMPTION, ROLL_CALL = hangs.STACKS, preemption.KIND, roll_call.KIND


def find_requested(job: JobState, requests: Iterable[Mapping[str, int]]) -> str | None:
    """The first kind of question that a node's users have requested and that was not answered since."""
    asked = list(requests)
    for kind in ON_REQUEST:
        done = job.results[kind].id if kind in job.results else 0
        if any(done <= one.get(kind, -1) <= job.asked for one in asked):
            return kind
    return None


def read_record(node: str, created: int, data: bytes, modified: int) -> Present | None:
    """Decode a node's record. Returns None if it is invalid; an invalid answer in it is left out."""
    record = decode_record(data)
    if record is None:
        return None
    body = read_body(record)
    return Present(node, created, record if body is not None else replace(record, answer=None), modified, body)


def read_body(record: NodeRecord) -> Any:
    """Decode the answer in a record. Returns None if there is none, or if it is invalid."""
    row = QUESTIONS.get(record.answer.kind) if record.answer else None
    if row is None or record.answer is None:
        return None
    try:
        body: Any = decode_json(record.answer.body, row.body)
    except BadMessage:
        return None
    return body if row.is_sound(body) else None
