"""One node's part in the job: follows the coordinator's job_states and keeps its own record true. Decides; never acts
or waits. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster import node_actions
from flota.cluster.job_state import GATHERING, ROLL_CALL, STACKS, YIELD, JobState
from flota.cluster.job_state import RUNNING as ROUND_RUNS
from flota.cluster.node_actions import Order
from flota.cluster.node_record import (
    DONE,
    FAILED,
    GONE,
    HERE,
    LEAVING,
    READY,
    RUNNING,
    SERVING,
    STACKED,
    YIELDED,
    YIELDING,
    NodeRecord,
)
from flota.cluster.watched import Watched
from flota.errors import TRY_AGAIN, USAGE
from flota.job.causes import is_hang
from flota.job.report import FAILED as JOB_FAILED
from flota.job.report import INCOMPLETE, STOPPED, SUCCEEDED, FailedWorker, JobEnding, exit_code_of
from flota.job.roster import Ports
from flota.preemption.stop_step import NOW

SIGINT = 2
TO_ANSWER = (READY, RUNNING, SERVING, STACKED)
LAST_WORD = 3.0  # seconds that a leaving node waits to hear what the job does without it


class Follower(Watched):
    def __init__(self, name: str, blank: NodeRecord, *, patience: float, lifeline: float, epoch: float = 0.0) -> None:
        super().__init__()
        self.name = name
        self.epoch = epoch  # makes a time of day of this node's own time
        self.over = False
        self.deadline: float | None = None
        self._blank = blank
        self._patience = patience  # seconds to wait for an answer before the job has begun
        self._lifeline = lifeline  # seconds that it goes on without one
        self.ending: JobEnding | None = None
        self._recalled = self._yields = False
        self._hang: tuple[FailedWorker, ...] = ()  # that the round ended with: no record says so
        self._offering = -1
        self._leaving_at: float | None = None
        self._farewell = JobEnding(STOPPED)

    # What happens here.

    def offered(self, ports: Ports, round_number: int) -> None:
        self.record = replace(self._blank, ports=ports, round=round_number, state=READY)
        self._offering = -1
        self._yields = self.asked_for_stacks = False
        self._hang = ()

    def failed(self, failures: tuple[FailedWorker, ...], reached: int) -> None:
        """`reached`: the furthest step that a worker of this node has told."""
        if self.record:
            self.record = replace(self.record, reached=reached)
        self._say(FAILED, failures=failures)

    def answers(self, now: float, reached: int) -> None:
        """With the clock: a failure on another node is compared with those here by it."""
        if self.record and not self.record.clock:
            self.record = replace(self.record, clock=now + self.epoch, reached=reached)
        if self.record and self.record.state in TO_ANSWER:
            self._say(HERE)

    def testified(self, failures: tuple[FailedWorker, ...], ended: tuple[tuple[str, int], ...]) -> None:
        """All that can be known here of a round that somebody has failed in."""
        if self.record:
            self.record = replace(self.record, failures=failures or self.record.failures, ended=ended, swept=True)

    def only_serves(self) -> None:
        """What is left of this node's workers is there for other nodes'."""
        self._say(SERVING)

    def stands(self, *, yields: bool, step: int, pace: float) -> None:
        if self.record:
            self.record = replace(self.record, state=YIELDING, yields=yields, step=step, pace=pace)

    def has_nothing_to_yield(self) -> None:
        """What is left of its workers serves others to the end."""
        if self.record:
            self.record = replace(self.record, state=YIELDED)

    def swept(self, *, well: bool, yielded: bool = False) -> None:
        """All workers of the round are gone; well: each had ended with success; yielded: by themselves, when asked."""
        self.working = False
        self._recalled = False
        if self._yields and self.record:
            self.record = replace(self.record, state=YIELDED if yielded or well else GONE)
        elif well:
            self._say(DONE)

    def cannot_go_on(self, reason: str) -> None:
        """Something here makes taking part impossible, for good."""
        self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, reason))

    def refused(self, reason: str) -> None:
        """The store will have nothing to do with this node."""
        self._end(JobEnding(JOB_FAILED, USAGE, 0, reason))

    def stop(self, signal: int, now: float, *, yields: bool = False, step: int = NOW, pace: float = 0.0) -> None:
        """Somebody wants this node to go. Others need to know only if it has a seat among them. If its workers can end
        by themselves, they are let be until the coordinator has decided.
        """
        if self._leaving_at is not None or self.ending:
            if self._leaving_at is not None and signal == SIGINT:
                self._end(self._farewell)  # asked for the second time: what the others decide does not matter any more
            return
        self._leaving_at = now
        if self.record and self.job_state and self.job_state.seat_of(self.name) >= 0:
            self.record = replace(self.record, state=LEAVING, signal=signal, yields=yields, step=step, pace=pace)
            self._farewell = JobEnding(STOPPED, 128 + signal, signal)
        else:
            self._end(JobEnding(STOPPED, 128 + signal, signal))

    def hear(self, job_state: JobState) -> None:
        if job_state.follows(self.job_state):
            self.job_state = job_state
            if job_state.phase == ROLL_CALL and job_state.round == self._round:
                self._hang = tuple(fault for fault in job_state.failures if is_hang(fault.code, fault.cause))

    # What follows from it.

    def advance(self, now: float, silent_since: float | None, where: str) -> list[Order]:
        """`silent_since`: since when the store, which should answer at `where`, owes an answer; None if it does not."""
        self.deadline = None
        self._mind_the_store(now, silent_since, where)
        self._mind_the_job_state(now)
        if self.ending:
            return self._go()
        job_state = self.job_state
        if job_state is not None and job_state.round == self._round:
            if job_state.phase == YIELD:
                return self._yield_to(job_state)
            if job_state.phase == STACKS:
                return self.take_stacks(job_state) if job_state.seat_of(self.name) >= 0 else []
            if job_state.phase == ROUND_RUNS and self.asked_for_stacks:
                return self.go_on()
        return self._follow()

    def _follow(self) -> list[Order]:
        job_state = self.job_state
        if job_state is None or self._leaving_at is not None:
            return self._first_offer()
        if job_state.phase == ROLL_CALL:
            return self._heed(job_state)
        if self.working:
            return self._recall() if job_state.round > self._round else self.take_look(job_state)
        if job_state.phase == GATHERING and job_state.round > self._round:
            return self._offer(job_state.round)
        seat = job_state.seat_of(self.name)
        is_ready = self.record is not None and self.record.state == READY and self.record.round == job_state.round
        if job_state.phase == ROUND_RUNS and seat >= 0 and is_ready:
            self.working = True
            self._say(RUNNING)
            return [node_actions.Begin(job_state, seat)]
        return self._first_offer()

    def _mind_the_store(self, now: float, silent_since: float | None, where: str) -> None:
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

    def _mind_the_job_state(self, now: float) -> None:
        job_state = self.job_state
        if job_state is None or self.ending:
            return
        if job_state.ending:
            self._end(job_state.ending)
        elif self.name in job_state.refused:
            self._end(
                JobEnding(JOB_FAILED, USAGE, 0, f"the job turned this node away: {job_state.refused[self.name].why}")
            )
        elif self._leaving_at is not None:
            # The others need this record until the coordinator has decided; after that nobody does.
            if job_state.round > self._round or (now >= self._leaving_at + LAST_WORD and job_state.phase != YIELD):
                self._end(self._farewell)
            elif job_state.phase != YIELD:
                self._ask_again(self._leaving_at + LAST_WORD)
        elif self.name in job_state.left and self.record and (failures := self.record.failures or self._hang):
            self._end(JobEnding(JOB_FAILED, exit_code_of(failures[0].code), 0, "", failures))

    def _go(self) -> list[Order]:
        assert self.ending is not None
        if self.working:
            return self._recall(node_actions.Release() if self.ending.kind == SUCCEEDED else node_actions.Recall())
        if self.over:
            return []
        self.over = True
        return [node_actions.Leave(self.ending)]

    def _end(self, ending: JobEnding) -> None:
        self.ending = self.ending or ending

    def _first_offer(self) -> list[Order]:
        return self._offer(0) if self.record is None and self.job_state is None else []

    def _offer(self, round_number: int) -> list[Order]:
        if self._offering == round_number:
            return []
        self._offering = round_number
        return [node_actions.Offer(round_number)]

    def _recall(self, order: Order = node_actions.Recall()) -> list[Order]:  # noqa: B008  a constant
        if self._recalled:
            return []
        self._recalled = True
        return [order]

    def _yield_to(self, job_state: JobState) -> list[Order]:
        if job_state.stop_at is None:
            waits = self.record is not None and self.record.state in (READY, RUNNING, SERVING)
            return [node_actions.LookAtWorkers()] if waits else []
        if self._yields:
            return []
        self._yields = True
        if self.working:
            return [node_actions.Yield(job_state.stop_at)]
        self.swept(well=True)
        return []

    def _heed(self, call: JobState) -> list[Order]:
        record = self.record if self._round == call.round else None
        if record and (not record.clock or record.state in TO_ANSWER):
            return [node_actions.Answer()]
        if self.working:
            return self._recall()
        return [node_actions.Testify()] if record and not record.swept else []

    @property
    def _round(self) -> int:
        return self.record.round if self.record else -1

    def _say(self, state: str, failures: tuple[FailedWorker, ...] = ()) -> None:
        if self.record and self.record.state != LEAVING:
            self.record = replace(self.record, state=state, failures=failures or self.record.failures)

    def _ask_again(self, at: float) -> None:
        self.deadline = at if self.deadline is None else min(self.deadline, at)
