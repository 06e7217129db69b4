"""What each rank of the whole job is waiting on: asked when all nodes make no progress, and when a user wants to know.

In the first case the ranks that block the others have failed; in the second the job goes on. Pure.
"""

from __future__ import annotations

from flota.errors import HANG
from flota.failures.diagnosis import HINTS
from flota.hangs.suspects import find_suspects, groups_in_words, in_words, suspicion
from flota.hangs.wait_sites import ENDED, KINDS, RankPosition
from flota.job.causes import HUNG, LEFT_EARLY
from flota.job.printable import are_printable, printable
from flota.job.report import HANG_IN_WORDS, NO_STEP, FailedWorker
from flota.job.survey import AskAgain, CallRoll, NodesLost, Outcome, Publish, Resume, Wait
from flota.values import NamedTuple
from flota.wording import duration_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.survey import Survey

STACKS = "stacks"  # of a job that makes no progress; with ABORT: nodes that cannot read them may abort their workers
POSITIONS = "positions"  # of a job that goes on
ABORT = "abort"
STACKS_TIME = 20.0  # seconds in which every node must answer: some have to abort workers for it
POSITIONS_TIME = 10.0
MOST_SUSPECTS = 8
EXCUSED = ("failed", "serving")  # their ranks block no one


class PositionsAnswer(NamedTuple):
    """What this node's ranks wait on. `blind`: it would have to abort them to know. `moves`: they make progress."""

    positions: tuple[RankPosition, ...] = ()
    blind: bool = False
    moves: bool = False


def sendable(position: RankPosition) -> RankPosition:
    return position._replace(words=printable(position.words), log=printable(position.log))


def is_sound(answer: PositionsAnswer) -> bool:
    return all(
        one.kind in KINDS and are_printable([one.words, one.role, one.host, one.log]) for one in answer.positions
    )


def decide_stacks(survey: Survey) -> Outcome:
    """Whoever fails meanwhile fails because of the hang. Workers are aborted last, because ranks of other nodes fail
    when they are; until then the job may turn out to make progress."""
    if survey.lost:
        return NodesLost(tuple(survey.lost))
    answers: dict[str, PositionsAnswer] = survey.answers
    may_abort = survey.question.argument == ABORT
    if not may_abort and any(answer.moves for answer in answers.values()):
        return Resume()
    answered = {node for node, answer in answers.items() if not answer.blind}
    answered |= {node for node, one in survey.present.items() if one.record.state in EXCUSED}
    asked = {node for node in survey.nodes if node in survey.present or node not in survey.done}
    late = survey.asked_at + STACKS_TIME
    if asked - answered and survey.now < late:
        blind = {node for node, answer in answers.items() if answer.blind} - answered
        return AskAgain(ABORT) if blind and not may_abort and asked == answered | blind else Wait(late)
    return CallRoll(_failures(survey))


def _failures(survey: Survey) -> tuple[FailedWorker, ...]:
    """Of the ranks that block the others; of no rank in particular, where none stands out."""
    positions = tuple(one for answer in survey.answers.values() for one in answer.positions)
    idle = max((one.record.idle for one in survey.present.values()), default=0.0)
    attempt = survey.job.attempt
    hung = FailedWorker(
        rank=-1,
        local_rank=-1,
        node=next((seat.host for seat in survey.job.seats if seat.node in survey.present), ""),
        pid=0,
        code=HANG,
        cause=HUNG,
        ending=HANG_IN_WORDS,
        ran=max((one.ran for one in positions), default=0.0),
        log="",
        said=_words(positions, idle, attempt),
        attempt=attempt,
        step=max((one.step for one in positions), default=NO_STEP),
    )
    suspects = find_suspects(positions)[:MOST_SUSPECTS]
    return tuple(_blame(hung, one) for one in suspects) or (hung,)


def _blame(hung: FailedWorker, one: RankPosition) -> FailedWorker:
    left = one.kind == ENDED
    return hung._replace(
        rank=one.rank,
        local_rank=one.local_rank,
        node=one.host,
        pid=one.pid,
        cause=LEFT_EARLY if left else HUNG,
        ran=one.ran,
        log=one.log,
        role=one.role,
        step=one.step,
        hint=HINTS[LEFT_EARLY] if left else "",
    )


def _words(positions: tuple[RankPosition, ...], idle: float, attempt: int) -> tuple[str, ...]:
    what = "step" if positions and all(one.step != NO_STEP for one in positions) else "output"
    return (
        f"no {what} for {duration_in_words(idle)}, and no rank is seen at work",
        *in_words(positions),
        f"stacks: in the log directory of each node, stacks.{attempt}.HOST.txt",
    )


def decide_positions(survey: Survey) -> Outcome:
    at_work = [seat for seat in survey.job.seats if _state(seat.node, survey) in ("running", "serving")]
    silent = [seat.host for seat in at_work if seat.node not in survey.answers]
    late = survey.asked_at + POSITIONS_TIME
    if silent and survey.now < late:
        return Wait(late)
    positions = tuple(one for answer in survey.answers.values() for one in answer.positions)
    hang = [f"if this is a hang: {suspicion(positions, find_suspects(positions))}"] if len(positions) > 1 else []
    return Publish((*groups_in_words(positions), *hang, *no_answer_from(silent)))


def _state(node: str, survey: Survey) -> str:
    return survey.present[node].record.state if node in survey.present else ""


def no_answer_from(hosts: list[str]) -> tuple[str, ...]:
    more = f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""
    return (f"no answer from {', '.join(hosts[:8])}{more}",) if hosts else ()
