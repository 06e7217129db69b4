"""Questions about what each rank of the job is waiting on: asked when no node makes progress, and by `flota stack`.

In the first case the ranks that block the others have failed; in the second the job continues. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from flota.errors import HANG
from flota.hangs.suspects import find_suspects, hang_in_words, snapshot_in_words
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

STACKS = "stacks"  # of a job without progress; with ABORT: nodes that cannot read stacks may abort their workers
POSITIONS = "positions"  # of a running job, for `flota stack`
ABORT = "abort"
STACKS_TIME = 20.0  # seconds in which every node must answer: some must abort workers first
POSITIONS_TIME = 10.0
MOST_SUSPECTS = 8
NOT_BLOCKING = ("failed", "serving")  # states of nodes whose ranks do not block others
IDLE_PART = 0.2  # of the timeout: how long all nodes must be idle at the same time
IDLE_PART_AFTER_EXIT = 0.45  # the same after a node has finished: others need time to notice that their ranks continue


class AllIdle:
    """Whether all nodes of a round are idle at the same time. A node that has waited for another, which has just
    finished, will continue soon. `deadline`: when to decide again even if nothing changes."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._since, self._part = 0.0, IDLE_PART
        self._done: frozenset[str] | None = None

    def check(self, seats: tuple[Seat, ...], of_round: list[Present], done: Collection[str], now: float) -> bool:
        timeout = shortest_timeout(seats, of_round, done)
        if timeout is None:
            self.deadline = self._done = None
            return False
        if self._done != frozenset(done):
            self._part = IDLE_PART if self._done is None else IDLE_PART_AFTER_EXIT
            self._since, self._done = now, frozenset(done)
        enough = self._since + self._part * timeout
        self.deadline = enough if now < enough else None
        return now >= enough


def shortest_timeout(seats: tuple[Seat, ...], of_round: list[Present], done: Collection[str]) -> float | None:
    """The shortest timeout of all nodes with work, if all of them are idle; otherwise None."""
    records = {one.node: one.record for one in of_round}
    at_work = [records.get(seat.node) for seat in seats if seat.node not in done]
    busy = [record for record in at_work if record is None or record.state != "serving"]
    idle = [record.timeout for record in busy if record and record.state == "running" and record.idle]
    return min(idle) if idle and len(idle) == len(busy) else None


class PositionsAnswer(NamedTuple):
    """What this node's ranks wait on. `blind`: the node cannot read stacks unless it aborts its workers."""

    positions: tuple[RankPosition, ...] = ()
    blind: bool = False
    makes_progress: bool = False


def sendable(position: RankPosition) -> RankPosition:
    return position._replace(words=printable(position.words), log=printable(position.log))


def is_sound(answer: PositionsAnswer) -> bool:
    texts = (text for one in answer.positions for text in (one.words, one.role, one.host, one.log))
    return are_printable(texts) and all(one.kind in KINDS for one in answer.positions)


def decide_stacks(survey: Survey) -> Outcome:
    """Workers that fail meanwhile fail because of the hang. Workers are aborted last, because ranks of other nodes fail
    as a consequence, and because the job may still turn out to make progress."""
    if survey.lost:
        return NodesLost(tuple(survey.lost))
    answers: dict[str, PositionsAnswer] = survey.answers
    may_abort = survey.question.argument == ABORT
    if not may_abort and any(answer.makes_progress for answer in answers.values()):
        return Resume()
    answered = {node for node, answer in answers.items() if not answer.blind}
    answered |= {node for node, one in survey.present.items() if one.record.state in NOT_BLOCKING}
    asked = {node for node in survey.nodes if node in survey.present or node not in survey.done}
    late = survey.asked_at + STACKS_TIME
    if asked - answered and survey.now < late:
        blind = {node for node, answer in answers.items() if answer.blind} - answered
        return AskAgain(ABORT) if blind and not may_abort and asked == answered | blind else Wait(late)
    return CallRoll(_failures(survey))


def _failures(survey: Survey) -> tuple[FailedWorker, ...]:
    """The failures of the ranks that block the others; a single one without a rank if none stands out."""
    positions = tuple(one for answer in survey.answers.values() for one in answer.positions)
    quiet = duration_in_words(max((one.record.idle for one in survey.present.values()), default=0.0))
    what = "step" if positions and all(one.step != NO_STEP for one in positions) else "output"
    said = (
        f"no {what} for {quiet}, and no rank is making progress",
        *hang_in_words(positions),
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
    return Publish((*snapshot_in_words(positions), *no_answer_from(silent)))


def no_answer_from(hosts: list[str]) -> tuple[str, ...]:
    more = f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""
    return (f"no answer from {', '.join(hosts[:8])}{more}",) if hosts else ()
