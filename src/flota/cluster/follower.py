"""One node's part in the job: follows the coordinator's job states and keeps its own record up to date.

It decides, and never acts or waits. Its behaviour is a table: one function for each situation, without and with
workers. Pure.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from flota.cluster.job_state import GATHERING, RUNNING, JobState
from flota.cluster.node_record import DONE, FAILED, LEAVING, READY, RESTART, SERVING, Answer, NodeRecord
from flota.cluster.node_record import RUNNING as WORKING
from flota.cluster.questions import PREEMPTION, QUESTIONS, ROLL_CALL
from flota.errors import TRY_AGAIN, USAGE
from flota.job.causes import is_hang
from flota.job.nodes import ONE_NODE
from flota.job.report import FAILED as JOB_FAILED
from flota.job.report import INCOMPLETE, STOPPED, SUCCEEDED, FailedWorker, JobEnding, after_timeout, exit_code_of
from flota.job.roster import Ports
from flota.job.spec import RestartPolicy
from flota.job.survey_outcomes import Question
from flota.snapshots.agreement import HeldSnapshot
from flota.stragglers.detector import StepTime, reported_steps
from flota.supervise.restart_policy import has_restarts_left
from flota.values import NamedTuple

SIGINT = 2
DONE_OUTAGE = 15.0  # seconds that a node whose workers have succeeded waits for a silent store
FAILING_LIMIT = 60.0  # seconds, if a store answers, but refuses or loses some requests
DECISION_TIMEOUT = 3.0  # seconds that a leaving node waits for the coordinator's decision
# Situations of a node; the first that fits applies.
OVER, NO_STATE, ASKED = "the job is over for this node", "no job state yet", "a question"
ROUND_ENDS = "an answered roll call"
RESUMES, LEAVES = "an urgent question was closed", "asked to leave, and not decided yet"
NEXT_ROUND, MISSED_ROUND = "a later round is gathering", "a later round is running"
SEATED, NOTHING_NEW = "a seat in the running round", "nothing new"


# Actions for the node.


class Offer(NamedTuple):
    """Reserve new ports for this round, then call `offered`."""

    round: int


class Begin(NamedTuple):
    """Start the workers of this round, in this seat."""

    job_state: JobState
    seat: int


class Recall(NamedTuple):
    """Stop the workers, then call `workers_ended`."""


class Release(NamedTuple):
    """The job has succeeded: let the workers that only serve exit, then call `workers_ended`."""


class AnswerQuestion(NamedTuple):
    """Answer with `reply`. Issued when the question arrives, and again when the workers are gone."""

    question: Question
    workers_gone: bool


class ResumeRound(NamedTuple):
    """The question is closed and the round goes on: watch the workers as before."""


class Leave(NamedTuple):
    """The job has ended for this node."""

    ending: JobEnding


NodeAction = Offer | Begin | Recall | Release | AnswerQuestion | ResumeRound | Leave


class Follower:
    """`record`: what this node publishes; None before it has ports to offer."""

    def __init__(self, name: str, blank: NodeRecord, *, join_timeout: float, outage_limit: float) -> None:
        self.name = name
        self.record: NodeRecord | None = None
        self.job_state: JobState | None = None
        self.working = False
        self.over = False
        self.ending: JobEnding | None = None
        self.deadline: float | None = None
        self._blank = blank
        self._join_timeout = join_timeout  # seconds to wait for the store before the job has begun
        self._outage_limit = outage_limit  # seconds that a running job continues without the store
        self._recalled = False
        self._asked = (0, False)  # the last question to this node, and whether its workers were gone
        self._deciding = False  # there was an urgent question in this round
        self._hang: tuple[FailedWorker, ...] = ()  # failures of a hang that ended the round: no record has them
        self._offering = -1
        self._leaving_at: float | None = None
        self._leaving_as = JobEnding(STOPPED)

    @property
    def is_spare(self) -> bool:
        return self.job_state is not None and self.job_state.is_spare(self.name)

    # What happens on this node.

    def offered(self, ports: Ports, round_number: int, snapshots: tuple[HeldSnapshot, ...] = ()) -> None:
        run_name = self.job_state.run_name if self.job_state else ""
        record = replace(self._blank, ports=ports, round=round_number, state=READY, run_name=run_name)
        self.record = replace(record, snapshots=snapshots)
        self._offering = -1
        self._asked = 0, False  # questions of earlier rounds no longer count
        self._deciding = False
        self._hang = ()

    def note_joined(self, at: float) -> None:
        """The store answers: this node's record is written now, `at` by its clock."""
        self._blank = replace(self._blank, joined=at)
        if self.record:
            self.record = replace(self.record, joined=at)

    def report_warming(self, *, warming: bool) -> None:
        """Whether this node's interpreters still import."""
        if self._blank.warming != warming:
            self._blank = replace(self._blank, warming=warming)
            self.record = replace(self.record, warming=warming) if self.record else None

    def report_unreached(self, where: str) -> None:
        """This node cannot reach the next node of the round."""
        if self.record:
            self.record = replace(self.record, unreached=where)

    def report_failures(self, failures: tuple[FailedWorker, ...]) -> None:
        self._set_state(FAILED, failures)

    def report_serving(self) -> None:
        """This node's remaining workers only serve other nodes."""
        self._set_state(SERVING)

    def report_idle(self, seconds: float, timeout: float) -> None:
        """No worker of this node has made progress for `seconds`; 0: one has. `timeout`: the hang timeout."""
        if self.record:
            self.record = replace(self.record, idle=seconds, timeout=timeout)

    def report_steps(self, steps: tuple[StepTime, ...]) -> None:
        """The step times of this node's ranks."""
        if self.record:
            self.record = replace(self.record, steps=reported_steps(self.record.steps, steps))

    def reply(self, question: Question, body: Any) -> None:
        """Answer a question, if it is the last one that this node was asked."""
        if self.record and question.id == self._asked[0]:
            answer = Answer(question.id, question.kind, Raw(msgspec.json.encode(body)))
            self.record = replace(self.record, answer=answer)

    def request(self, kind: str) -> int | None:
        """Request, for a user of this machine, that all nodes are asked this question. The result will have an id above
        the one that is returned. Returns None if it cannot be asked."""
        if not (self.record and self.job_state and self.working):
            return None
        self.record = replace(self.record, requests={**self.record.requests, kind: self.job_state.asked})
        return self.job_state.asked

    def request_restart(self) -> bool:
        """Request that the job begins a new round. Returns whether it can."""
        if not (self.record and self.job_state and self.working):
            return False
        self.record = replace(self.record, requests={**self.record.requests, RESTART: self.job_state.round})
        return True

    def workers_ended(self, *, succeeded: bool) -> None:
        """All workers of the round are gone. `succeeded`: all of them finished successfully."""
        self.working = self._recalled = False
        if succeeded:
            self._set_state(DONE)

    def give_up(self, reason: str) -> None:
        """This node cannot take part in the job any longer."""
        self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, reason))

    def refused(self, reason: str) -> None:
        """The store does not accept this node."""
        self._end(JobEnding(JOB_FAILED, USAGE, 0, reason))

    def stop(
        self,
        signal: int,
        now: float,
        *,
        can_stop: bool = False,
        scope: str = ONE_NODE,
        timed_out: str = "",
        stopped_by: str = "",
    ) -> None:
        """A signal asked this node to stop. The other nodes need to know only if it has a seat. `can_stop`: its workers
        can save and exit on their own; they keep running until the coordinator has decided. `timed_out`: it was this
        --timeout, which acts like a signal. `stopped_by`: the signal as users know it, if flota treats it as another.
        """
        if self._leaving_at is not None or self.ending:
            if self._leaving_at is not None and signal == SIGINT:
                self._end(self._leaving_as)  # a second Ctrl-C does not wait for the coordinator
            return
        self._leaving_at = now
        ending = JobEnding(STOPPED, 128 + signal, signal, stopped_by=stopped_by)
        ending = after_timeout(ending, timed_out) if timed_out else ending
        if self.record and self.job_state and self.job_state.seat_of(self.name) >= 0:
            how = {"signal": signal, "can_stop": can_stop, "scope": scope}
            self.record = replace(self.record, state=LEAVING, timed_out=timed_out, stopped_by=stopped_by, **how)
            self._leaving_as = ending
        else:
            self._end(ending)

    def receive_state(self, job_state: JobState) -> None:
        unknown = job_state.question is not None and job_state.question.kind not in QUESTIONS
        if job_state.follows(self.job_state) and not unknown:
            self.job_state = job_state
            if job_state.asks(ROLL_CALL) and job_state.round == self._round:
                self._hang = tuple(one for one in job_state.failures if is_hang(one.code, one.cause))

    def expects_restart(self, policy: RestartPolicy) -> bool:
        """Whether another round follows a failure or a loss, as far as the coordinator has decided."""
        if self.ending or (job := self.job_state) is None:
            return False
        fails = any(one.counted or one.lost for one in job.restarts[-1:])
        return fails if job.round > self._round else has_restarts_left(job.attempt, policy)

    # What this node does about it.

    def advance(
        self, now: float, silent_since: float | None, where: str, failing_since: float | None = None
    ) -> list[NodeAction]:
        """`silent_since`: since when the store at `where` does not answer; None if it does. `failing_since`: since when
        it does not do all that this node requests.
        """
        self.deadline = None
        self._check_store(now, silent_since, failing_since, where)
        self._check_ending(now)
        return TABLE[self._situation(), self.working](self)

    def _situation(self) -> str:
        job_state = self.job_state
        if self.ending:
            return OVER
        if job_state is None:
            return NO_STATE
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
            return RESUMES if self._deciding and job_state.phase == RUNNING else ""
        if self._asked not in ((question.id, not self.working), (question.id, True)):
            return ASKED
        return ROUND_ENDS if QUESTIONS[question.kind].ends_round else ""

    def _check_store(self, now: float, silent_since: float | None, failing_since: float | None, where: str) -> None:
        """End if the store has failed for too long. Before the job begins, its node may be restarted."""
        begun = self.job_state is not None and bool(self.job_state.seats)
        silence = f"lost the connection to the store: {where}" if begun else f"no answer from {where}"
        failing_limit = max(FAILING_LIMIT, self._outage_limit)
        done = self.record is not None and self.record.state == DONE
        for since, limit, words in (
            (silent_since, max(DONE_OUTAGE, self._outage_limit) if done else self._outage_limit, silence),
            (failing_since, failing_limit, f"the store failed: {where}"),
        ):
            if since is None or self.ending:
                continue
            end = since + (limit if begun else self._join_timeout)
            if now < end:
                self._wake_at(end)
            else:
                self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, words))

    def _check_ending(self, now: float) -> None:
        job_state = self.job_state
        if job_state is None or self.ending:
            return
        if job_state.ending:
            self._end(job_state.ending)
        elif self.name in job_state.refused:
            reason = f"the job refused this node: {job_state.refused[self.name].why}"
            self._end(JobEnding(JOB_FAILED, USAGE, 0, reason))
        elif self._leaving_at is not None:
            # The record is needed until the coordinator has decided.
            preempted = job_state.asks(PREEMPTION)
            if job_state.round > self._round or (now >= self._leaving_at + DECISION_TIMEOUT and not preempted):
                self._end(self._leaving_as)
            elif not preempted:
                self._wake_at(self._leaving_at + DECISION_TIMEOUT)
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
        self._set_state(WORKING)
        if self.record:
            self.record = replace(self.record, run_name=self.job_state.run_name)
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

    def _set_state(self, state: str, failures: tuple[FailedWorker, ...] = ()) -> None:
        if self.record and self.record.state != LEAVING:
            self.record = replace(self.record, state=state, failures=failures or self.record.failures)

    def _wake_at(self, at: float) -> None:
        self.deadline = at if self.deadline is None else min(self.deadline, at)


F, nothing = Follower, Follower._nothing
_ROWS: dict[str, tuple[Callable[[Follower], list[NodeAction]], Callable[[Follower], list[NodeAction]]]] = {
    # situation: without workers, with workers
    OVER: (F._leave, F._stop_or_release),
    NO_STATE: (F._offer_first, nothing),
    ASKED: (F._answer, F._answer),
    ROUND_ENDS: (nothing, F._stop_workers),
    RESUMES: (F._resume, F._resume),
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
