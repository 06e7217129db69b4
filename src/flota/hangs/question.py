"""What each rank of the whole job is waiting on: asked when no node makes progress, and when a user wants to know.

In the first case the ranks that block the others have failed; in the second the job goes on. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from flota.errors import HANG
from flota.hangs.suspects import asked_in_words, find_suspects, in_words
from flota.hangs.wait_sites import ENDED, KINDS, RankPosition
from flota.humanize import duration_in_words
from flota.job.causes import HINTS, HUNG, LEFT_EARLY
from flota.job.printable import are_printable, printable
from flota.job.report import HANG_IN_WORDS, NO_STEP, FailedWorker
from flota.job.survey_outcomes import AskAgain, CallRoll, NodesLost, Outcome, Publish, Resume, Wait
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.node_record import Present
    from flota.cluster.survey import Survey
    from flota.job.roster import Seat

STACKS = "stacks"  # of a job that makes no progress; with ABORT: nodes that cannot read them may abort their workers
POSITIONS = "positions"  # of a job that goes on
ABORT = "abort"
STACKS_TIME = 20.0  # seconds in which every node must answer: some have to abort workers for it
POSITIONS_TIME = 10.0
MOST_SUSPECTS = 8
EXCUSED = ("failed", "serving")  # their ranks block no one
TOGETHER = 0.2  # of the timeout: so long must all nodes be idle together
GOES_ON = 0.45  # of it, after a node has finished: so long may it take another to see that its ranks go on now


class AllIdle:
    """Whether all nodes of a round are idle together. One may have waited for long for another that has just finished,
    and the next moment it will go on. `deadline`: when to look again though nothing has changed."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._since, self._part = 0.0, TOGETHER
        self._done: frozenset[str] | None = None

    def lasts(self, seats: tuple[Seat, ...], of_round: list[Present], done: Collection[str], now: float) -> bool:
        timeout = shortest_timeout(seats, of_round, done)
        if timeout is None:
            self.deadline = self._done = None
            return False
        if self._done != frozenset(done):
            self._part = TOGETHER if self._done is None else GOES_ON
            self._since, self._done = now, frozenset(done)
        enough = self._since + self._part * timeout
        self.deadline = enough if now < enough else None
        return now >= enough


def shortest_timeout(seats: tuple[Seat, ...], of_round: list[Present], done: Collection[str]) -> float | None:
    """Of all nodes that have work, if each of them says that it is idle."""
    records = {one.node: one.record for one in of_round}
    at_work = [records.get(seat.node) for seat in seats if seat.node not in done]
    busy = [record for record in at_work if record is None or record.state != "serving"]
    idle = [record.timeout for record in busy if record and record.state == "running" and record.idle]
    return min(idle) if idle and len(idle) == len(busy) else None


class PositionsAnswer(NamedTuple):
    """What this node's ranks wait on. `blind`: it would have to abort them to know. `moves`: they make progress."""

    positions: tuple[RankPosition, ...] = ()
    blind: bool = False
    moves: bool = False


def sendable(position: RankPosition) -> RankPosition:
    return position._replace(words=printable(position.words), log=printable(position.log))


def is_sound(answer: PositionsAnswer) -> bool:
    texts = (text for one in answer.positions for text in (one.words, one.role, one.host, one.log))
    return are_printable(texts) and all(one.kind in KINDS for one in answer.positions)


def decide_stacks(survey: Survey) -> Outcome:
    """Workers that fail meanwhile fail because of the hang. Workers are aborted last, because ranks of other nodes fail
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
    quiet = duration_in_words(max((one.record.idle for one in survey.present.values()), default=0.0))
    what = "step" if positions and all(one.step != NO_STEP for one in positions) else "output"
    said = (
        f"no {what} for {quiet}, and no rank is seen at work",
        *in_words(positions),
        f"stacks: in the log directory of each node, stacks.{survey.job.attempt}.HOST.txt",
    )
    no_rank = RankPosition(
        -1,
        "",
        "",
        host=next((seat.host for seat in survey.job.seats if seat.node in survey.present), ""),
        local_rank=-1,
        ran=max((one.ran for one in positions), default=0.0),
        step=max((one.step for one in positions), default=NO_STEP),
    )
    suspects = find_suspects(positions)[:MOST_SUSPECTS] or (no_rank,)
    return tuple(_failure(one, said, survey.job.attempt) for one in suspects)


def _failure(one: RankPosition, said: tuple[str, ...], attempt: int) -> FailedWorker:
    left = one.kind == ENDED
    return FailedWorker(
        rank=one.rank,
        local_rank=one.local_rank,
        node=one.host,
        pid=one.pid,
        code=HANG,
        cause=LEFT_EARLY if left else HUNG,
        ending=HANG_IN_WORDS,
        ran=one.ran,
        log=one.log,
        said=said,
        attempt=attempt,
        role=one.role,
        step=one.step,
        hint=HINTS[LEFT_EARLY] if left else "",
    )


def decide_positions(survey: Survey) -> Outcome:
    at_work = {node for node, one in survey.present.items() if one.record.state in ("running", "serving")}
    silent = [seat.host for seat in survey.job.seats if seat.node in at_work and seat.node not in survey.answers]
    late = survey.asked_at + POSITIONS_TIME
    if silent and survey.now < late:
        return Wait(late)
    positions = tuple(one for answer in survey.answers.values() for one in answer.positions)
    return Publish((*asked_in_words(positions), *no_answer_from(silent)))


def no_answer_from(hosts: list[str]) -> tuple[str, ...]:
    more = f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""
    return (f"no answer from {', '.join(hosts[:8])}{more}",) if hosts else ()
