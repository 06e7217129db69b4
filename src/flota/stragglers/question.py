"""The steps question, for `flota stack`: which step has each rank reached, and how long do its steps take? Pure."""

from __future__ import annotations

from flota.humanize import list_in_words, noun, workers_in_words
from flota.job.printable import are_printable
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER, label
from flota.job.survey_outcomes import Outcome, Publish, Question, Wait
from flota.stragglers.detector import SLOW, StepTime, step_time
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.cluster.survey import Survey

KIND = "steps"
ANSWER_TIME = 2.0  # seconds in which nodes must answer: they only read memory


class StepsAnswer(NamedTuple):
    rows: tuple[StepTime, ...] = ()


def is_sound(answer: StepsAnswer) -> bool:
    return are_printable(row.role for row in answer.rows) and all(0 <= row.seconds < 1e9 for row in answer.rows)


def answer(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    if not workers_gone:
        own = ((node.started.plans[number].worker, node.channel.read(number)) for number in sorted(node.working()))
        node.reply(question, StepsAnswer(tuple(step_time(worker.rank, worker.name, beat) for worker, beat in own)))


def decide(survey: Survey) -> Outcome:
    at_work = {node: one.record.host for node, one in survey.present.items() if one.record.state == "running"}
    silent = [host for node, host in at_work.items() if node not in survey.answers]
    late = survey.asked_at + ANSWER_TIME
    if silent and survey.now < late:
        return Wait(late)
    lines = steps_in_words([row for answer in survey.answers.values() for row in answer.rows])
    return Publish((*lines, *([f"no answer from {list_in_words(silent)}"] if silent else [])))


def steps_in_words(rows: list[StepTime]) -> tuple[str, ...]:
    """One line per role. Ranks that do not report steps are left out."""
    known = [row for row in rows if row.step != NO_STEP]
    roles = dict.fromkeys(row.role for row in known)
    sizes = {role: sum(row.role == role for row in rows) for role in roles}
    return tuple(_role_in_words(role, [row for row in known if row.role == role], sizes[role]) for role in roles)


def _role_in_words(role: str, rows: list[StepTime], size: int) -> str:
    """`steps: all 8 ranks at 1200, 0.21 s per step`, or `steps: 1180 (rank 7) to 1200, …; rank 3 takes 0.90 s`."""
    steps = sorted({row.step for row in rows})
    last = [row.rank for row in rows if row.step == steps[0]]
    name = noun("rank" if role == TRAINER else role, 2)
    if len(rows) == 1:
        where = f"{label(role, rows[0].rank)} at {steps[0]}"
    elif len(steps) == 1:
        where = f"{'all' if len(rows) == size else f'{len(rows)} of'} {size} {name} at {steps[0]}"
    else:
        where = f"{steps[0]} ({workers_in_words((role, rank) for rank in last)}) to {steps[-1]}"
    times = sorted(row.seconds for row in rows if row.seconds)
    if not times:
        return f"steps: {where}"
    middle = times[(len(times) - 1) // 2]
    slow = [row for row in rows if row.seconds > SLOW * middle]
    named = "".join(f"; {label(role, row.rank)} takes {row.seconds:.2g} s" for row in slow[:4])
    return f"steps: {where}, {middle:.2g} s per step{named}"
