"""One node's part in the job: follows the coordinator's job states and keeps its own record true.

Decides; never acts or waits. What it does is a table: for each thing that the job state can mean to it, without workers
and with workers, one function. Pure.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from flota.cluster.job_state import GATHERING, RUNNING, JobState
from flota.cluster.node_record import DONE, FAILED, LEAVING, READY, SERVING, Answer, NodeRecord
from flota.cluster.node_record import RUNNING as WORKING
from flota.cluster.questions import PREEMPTION, QUESTIONS, ROLL_CALL
from flota.errors import TRY_AGAIN, USAGE
from flota.job.causes import is_hang
from flota.job.report import FAILED as JOB_FAILED
from flota.job.report import INCOMPLETE, STOPPED, SUCCEEDED, FailedWorker, JobEnding, exit_code_of
from flota.job.roster import Ports
from flota.job.survey_outcomes import Question
from flota.stragglers.detector import StepTime, reported_steps
from flota.values import NamedTuple

SIGINT = 2
DECISION_TIMEOUT = 3.0  # seconds that a leaving node waits for what the job does without it
# What a job state can mean to a node, the first that fits.
OVER, UNHEARD, ASKED, CALLED_OFF = "the job is over for this node", "no job state yet", "a question", "a roll call"
ANSWERED, LEAVES = "a question that has no consequence", "asked to leave, and not decided yet"
NEXT_ROUND, MISSED_ROUND = "a later round gathers", "a later round runs"
SEATED, NOTHING_NEW = "a seat in the running round", "nothing new"


# What a follower can ask of its node.


class Offer(NamedTuple):
    """Take fresh ports for this round; `offered` when they are held."""

    round: int


class Begin(NamedTuple):
    """Start the workers of this round, from this seat."""

    job_state: JobState
    seat: int


class Recall(NamedTuple):
    """Stop the workers; `swept` when they are gone."""


class Release(NamedTuple):
    """The job has succeeded: let the workers that only serve end; `swept` when they are gone."""


class AnswerQuestion(NamedTuple):
    """Send with `reply` what this node knows. Put when the question arrives, and again when its workers are gone."""

    question: Question
    workers_gone: bool


class ResumeRound(NamedTuple):
    """What was asked has no consequence: watch the workers as before."""


class Leave(NamedTuple):
    """The job has ended for this node, in this way."""

    ending: JobEnding


NodeAction = Offer | Begin | Recall | Release | AnswerQuestion | ResumeRound | Leave


class Follower:
    """`record` is what this node publishes; None before it has ports to offer."""

    def __init__(self, name: str, blank: NodeRecord, *, patience: float, lifeline: float) -> None:
        self.name = name
        self.record: NodeRecord | None = None
        self.job_state: JobState | None = None
        self.working = False
        self.over = False
        self.ending: JobEnding | None = None
        self.deadline: float | None = None
        self._blank = blank
        self._patience = patience  # seconds to wait for an answer before the job has begun
        self._lifeline = lifeline  # seconds that it goes on without one
        self._recalled = False
        self._asked = (0, False)  # the last question that was put to this node, and whether its workers were gone
        self._deciding = False  # an urgent question has been put in this round
        self._hang: tuple[FailedWorker, ...] = ()  # that the round ended with: no record says so
        self._offering = -1
        self._leaving_at: float | None = None
        self._leaving_as = JobEnding(STOPPED)

    # What happens here.

    def offered(self, ports: Ports, round_number: int) -> None:
        log_time = self.job_state.log_time if self.job_state else ""
        self.record = replace(self._blank, ports=ports, round=round_number, state=READY, log_time=log_time)
        self._offering = -1
        self._asked = 0, False  # questions of an earlier round are not this one's
        self._deciding = False
        self._hang = ()

    def failed(self, failures: tuple[FailedWorker, ...]) -> None:
        self._say(FAILED, failures)

    def only_serves(self) -> None:
        """What is left of this node's workers is there for other nodes'."""
        self._say(SERVING)

    def idle(self, seconds: float, timeout: float) -> None:
        """All of its workers make no progress, for so long, when they may be quiet for this `timeout`; 0: they do."""
        if self.record:
            self.record = replace(self.record, idle=seconds, timeout=timeout)

    def steps_take(self, steps: tuple[StepTime, ...]) -> None:
        """What its ranks report of their steps."""
        if self.record:
            self.record = replace(self.record, steps=reported_steps(self.record.steps, steps))

    def reply(self, question: Question, body: Any) -> None:
        """To a question that was put to this node."""
        if self.record and question.id == self._asked[0]:
            answer = Answer(question.id, question.kind, Raw(msgspec.json.encode(body)))
            self.record = replace(self.record, answer=answer)

    def request(self, kind: str) -> int | None:
        """A user here wants this question asked of all nodes. The result will have a number above the one that is
        returned; None: it cannot be asked."""
        if not (self.record and self.job_state and self.working):
            return None
        self.record = replace(self.record, requests={**self.record.requests, kind: self.job_state.asked})
        return self.job_state.asked

    def swept(self, *, well: bool) -> None:
        """All workers of the round are gone; well: each had finished successfully."""
        self.working = self._recalled = False
        if well:
            self._say(DONE)

    def cannot_go_on(self, reason: str) -> None:
        """Something here makes taking part impossible, for good."""
        self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, reason))

    def refused(self, reason: str) -> None:
        """The store does not accept this node."""
        self._end(JobEnding(JOB_FAILED, USAGE, 0, reason))

    def stop(self, signal: int, now: float, *, can_stop: bool = False) -> None:
        """This node was asked to end. Others need to know only if it has a seat among them. If its workers can save and
        stop on their own, they are let be until the coordinator has decided.
        """
        if self._leaving_at is not None or self.ending:
            if self._leaving_at is not None and signal == SIGINT:
                self._end(
                    self._leaving_as
                )  # asked for the second time: what the others decide does not matter any more
            return
        self._leaving_at = now
        if self.record and self.job_state and self.job_state.seat_of(self.name) >= 0:
            self.record = replace(self.record, state=LEAVING, signal=signal, can_stop=can_stop)
            self._leaving_as = JobEnding(STOPPED, 128 + signal, signal)
        else:
            self._end(JobEnding(STOPPED, 128 + signal, signal))

    def hear(self, job_state: JobState) -> None:
        unknown = job_state.question is not None and job_state.question.kind not in QUESTIONS
        if job_state.follows(self.job_state) and not unknown:
            self.job_state = job_state
            if job_state.asks(ROLL_CALL) and job_state.round == self._round:
                self._hang = tuple(one for one in job_state.failures if is_hang(one.code, one.cause))

    # What follows from it.

    def advance(self, now: float, silent_since: float | None, where: str) -> list[NodeAction]:
        """`silent_since`: since when the store, which should answer at `where`, owes an answer; None if it does not."""
        self.deadline = None
        self._check_store(now, silent_since, where)
        self._check_ending(now)
        return TABLE[self._situation(), self.working](self)

    def _situation(self) -> str:
        job_state = self.job_state
        if self.ending:
            return OVER
        if job_state is None:
            return UNHEARD
        if job_state.round == self._round and (asked := self._situation_of_question(job_state)):
            return asked
        if self._leaving_at is not None:
            return LEAVES
        if job_state.round > self._round:
            return NEXT_ROUND if job_state.phase == GATHERING else MISSED_ROUND
        is_ready = self.record is not None and self.record.state == READY and self.record.round == job_state.round
        return SEATED if job_state.phase == RUNNING and is_ready and job_state.seat_of(self.name) >= 0 else NOTHING_NEW

    def _situation_of_question(self, job_state: JobState) -> str:
        question = job_state.question
        if question is None or job_state.seat_of(self.name) < 0:
            return ANSWERED if self._deciding and job_state.phase == RUNNING else ""
        if self._asked not in ((question.id, not self.working), (question.id, True)):
            return ASKED
        return CALLED_OFF if QUESTIONS[question.kind].ends_round else ""

    def _check_store(self, now: float, silent_since: float | None, where: str) -> None:
        """Until the job has begun a store that is lost is only waited for: its node may be started again."""
        if self.ending or silent_since is None:
            return
        begun = self.job_state is not None and bool(self.job_state.seats)
        limit = silent_since + (self._lifeline if begun else self._patience)
        if now < limit:
            self._ask_again(limit)
        else:
            words = f"lost the job's store: {where}" if begun else f"no answer from {where}"
            self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, words))

    def _check_ending(self, now: float) -> None:
        job_state = self.job_state
        if job_state is None or self.ending:
            return
        if job_state.ending:
            self._end(job_state.ending)
        elif self.name in job_state.refused:
            reason = f"the job turned this node away: {job_state.refused[self.name].why}"
            self._end(JobEnding(JOB_FAILED, USAGE, 0, reason))
        elif self._leaving_at is not None:
            # The others need this record until the coordinator has decided; after that no node does.
            preempted = job_state.asks(PREEMPTION)
            if job_state.round > self._round or (now >= self._leaving_at + DECISION_TIMEOUT and not preempted):
                self._end(self._leaving_as)
            elif not preempted:
                self._ask_again(self._leaving_at + DECISION_TIMEOUT)
        elif self.name in job_state.left and self.record and (failures := self.record.failures or self._hang):
            self._end(JobEnding(JOB_FAILED, exit_code_of(failures[0].code), 0, "", failures))

    # The cells of the table.

    def _leave(self) -> list[NodeAction]:
        assert self.ending is not None
        if self.over:
            return []
        self.over = True
        return [Leave(self.ending)]

    def _stop_or_release(self) -> list[NodeAction]:
        succeeded = self.ending is not None and self.ending.kind == SUCCEEDED
        return self._once(Release() if succeeded else Recall())

    def _offer_first(self) -> list[NodeAction]:
        return self._offer(0) if self.record is None else []

    def _offer_next(self) -> list[NodeAction]:
        return self._offer(self.job_state.round) if self.job_state else []

    def _begin(self) -> list[NodeAction]:
        assert self.job_state is not None
        self.working = True
        self._say(WORKING)
        if self.record:
            self.record = replace(self.record, log_time=self.job_state.log_time)
        return [Begin(self.job_state, self.job_state.seat_of(self.name))]

    def _answer(self) -> list[NodeAction]:
        question = self.job_state.question if self.job_state else None
        assert question is not None
        self._asked = question.id, not self.working
        self._deciding = self._deciding or QUESTIONS[question.kind].urgent
        return [AnswerQuestion(question, not self.working)]

    def _stop_workers(self) -> list[NodeAction]:
        return self._once(Recall())

    def _resume(self) -> list[NodeAction]:
        self._deciding = False
        if self.record:
            self.record = replace(self.record, idle=0.0)
        return [ResumeRound()]

    def _nothing(self) -> list[NodeAction]:
        return []

    def _end(self, ending: JobEnding) -> None:
        self.ending = self.ending or ending

    def _offer(self, round_number: int) -> list[NodeAction]:
        if self._offering == round_number:
            return []
        self._offering = round_number
        return [Offer(round_number)]

    def _once(self, action: NodeAction) -> list[NodeAction]:
        if self._recalled:
            return []
        self._recalled = True
        return [action]

    @property
    def _round(self) -> int:
        return self.record.round if self.record else -1

    def _say(self, state: str, failures: tuple[FailedWorker, ...] = ()) -> None:
        if self.record and self.record.state != LEAVING:
            self.record = replace(self.record, state=state, failures=failures or self.record.failures)

    def _ask_again(self, at: float) -> None:
        self.deadline = at if self.deadline is None else min(self.deadline, at)


F, nothing = Follower, Follower._nothing
_ROWS: dict[str, tuple[Callable[[Follower], list[NodeAction]], Callable[[Follower], list[NodeAction]]]] = {
    # situation: without workers, with workers
    OVER: (F._leave, F._stop_or_release),
    UNHEARD: (F._offer_first, nothing),
    ASKED: (F._answer, F._answer),
    CALLED_OFF: (nothing, F._stop_workers),
    ANSWERED: (F._resume, F._resume),
    LEAVES: (nothing, nothing),
    NEXT_ROUND: (F._offer_next, F._stop_workers),
    MISSED_ROUND: (nothing, F._stop_workers),
    SEATED: (F._begin, nothing),
    NOTHING_NEW: (nothing, nothing),
}
SITUATIONS = tuple(_ROWS)
TABLE = {
    (situation, working): cell
    for situation, cells in _ROWS.items()
    for working, cell in zip((False, True), cells, strict=True)
}
