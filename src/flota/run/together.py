"""This node's part of a job on many machines: it meets the others, and runs the rounds that they agree on."""

from __future__ import annotations

import os
import time

from msgspec.structs import replace

from flota.errors import TRY_AGAIN, FlotaError
from flota.host.ports import release
from flota.host.signals import Signals
from flota.job.meeting import LEASE, Meeting, lease_of
from flota.job.plan import roles_of
from flota.job.report import SUCCEEDED, Report, Verdict, with_failures
from flota.job.roster import Roster, completed
from flota.job.spec import JobSpec, RestartPolicy
from flota.rendezvous import orders
from flota.rendezvous.cards import DEAD, encode_card, sendable
from flota.rendezvous.node import Node
from flota.rendezvous.notices import Ending, Notice
from flota.rendezvous.terms import blank_card, terms_of
from flota.run.hanging import Hanging
from flota.run.looking import Looking
from flota.run.member import Member
from flota.run.offering import Offering
from flota.run.point import MeetingPoint
from flota.run.start import spawns_to_come, start_workers
from flota.run.testimony import failures_of, faults_of, testify
from flota.run.tidings import Tidings
from flota.run.watch import Watch
from flota.run.yielding import Standing
from flota.store.keys import keys_of
from flota.store.presence import Presence
from flota.supervise.actions import StartRound
from flota.supervise.events import Event, RoundRecalled, StopRequested
from flota.supervise.machine import SIGTERM, Supervisor
from flota.supervise.phases import Phase
from flota.supervise.yielding import NOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.run.warm import Warm
    from flota.supervise.stragglers import Who

LIFELINE = 0.6  # of the lease: with the time between two renewals, a lost master is noticed within one lease
OUTAGE = 60.0  # seconds that workers go on without etcd. Longer, and they might work beside the next round's
LAST_BREATH = LEASE + 1.0  # seconds for the others to hear how the job ended
LOOK_AGAIN = 1.0  # seconds between looks whether this node could serve, where nobody does
LOOK_UP_AGAIN = 15.0  # the same for a name, because a resolver may take seconds, in which no signal is heard


def run_together(
    spec: JobSpec,
    environ: Mapping[str, str],
    signals: Signals,
    configuration: tuple[tuple[str, str], ...],
    notes: tuple[str, ...],
    warm: Warm | None,
) -> Report:
    assert spec.meeting is not None
    together = Together(spec, spec.meeting, environ, signals, warm)
    try:
        return together.run(configuration, notes)
    finally:
        together.point.close()
        together.tidings.close()
        together.offering.release()
        together.looking.close()


class Together(Watch):
    def __init__(
        self, spec: JobSpec, meeting: Meeting, environ: Mapping[str, str], signals: Signals, warm: Warm | None
    ) -> None:
        super().__init__(spec, environ, signals, warm)
        self.meeting = meeting
        self.keys = keys_of(sendable(spec.job_id) if meeting.etcd else None)
        self.final: Ending | None = None
        self.agreed_step = NOW
        self.told_failure = self.told_doubt = self.told_work_is_done = False
        self.hanging = Hanging(self, self.vigil)
        self.tidings = Tidings(self.console, meeting)
        self.point = MeetingPoint(spec, meeting, self.loop, self.tidings.wrong_token)
        self.member = self._make_member(os.urandom(8).hex(), time.monotonic())
        self.look_again_at = time.monotonic() + LOOK_AGAIN
        self.offering = Offering(self)
        self.looking = Looking(self)

    def _make_member(self, name: str, began: float) -> Member:
        spec, meeting = self.spec, self.meeting
        serves = self.point.master is not None
        blank = blank_card(spec, meeting, os.uname().nodename, serves=serves)
        ttl = lease_of(meeting)
        node = Node(
            name,
            blank,
            patience=meeting.join_timeout,
            lifeline=max(OUTAGE, ttl) if meeting.etcd else LIFELINE * ttl,
            epoch=self.ending.epoch,
        )
        presence = Presence(
            self.point.client, self.keys, name, ttl, may_chair=meeting.etcd or serves, clock=time.monotonic
        )
        return Member(node, presence, terms_of(spec, meeting), self.point.words, began)

    def run(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...]) -> Report:
        self.loop.watch(self.signals.fd, self.on_signals)
        if self.warm:
            self.warm.prepare(spawns_to_come(self.spec, self.environ))
        self.tidings.welcome(configuration, notes, self.point)
        self.advance()
        while self.final is None:
            self._turn()
        give_up = time.monotonic() + LAST_BREATH
        while not self.member.is_gone(time.monotonic()) and not self.hurried and time.monotonic() < give_up:
            self._turn(give_up)
        return self.conclude(self._report(self.final), writes=self._has_rank_0())

    def _turn(self, until: float | None = None) -> None:
        waiting = self.look_again_at if self._is_in_vain() else None
        parts = (self.member, self.point, self.tidings, self.offering, self.looking)
        times = [*(part.deadline for part in parts), waiting, until]
        self.turn(min((time for time in times if time is not None), default=None))
        now = time.monotonic()
        self.point.on_time(now)
        self._serve_if_nobody_does(now)
        self.offering.on_time(now)
        self.looking.on_time(now)
        deadline = self.member.presence.deadline
        if deadline is not None and now >= deadline:
            self.member.presence.pursue()
        self.advance()

    def _serve_if_nobody_does(self, now: float) -> None:
        """A machine may be known by its own name only after it has started, and the last job's master may still have
        had the port when this one's nodes came: then nobody answers, nor could."""
        if now >= self.look_again_at:
            self.look_again_at = time.monotonic() + (LOOK_AGAIN if self.point.is_numeric else LOOK_UP_AGAIN)
            if self._is_in_vain() and self.point.take_over():
                self.tidings.warn(self.point)
                self.member = self._make_member(self.member.node.name, self.member.began)

    def _is_in_vain(self) -> bool:
        return self.member.silent_since is not None and self.has_not_begun()

    def has_not_begun(self) -> bool:
        notice = self.member.node.notice
        return notice is None or not notice.seats

    def advance(self) -> None:
        """Until nothing follows from anything any more."""
        while wanted := self.member.advance(time.monotonic()):
            for order in wanted:
                self._obey(order)
        self.tidings.tell(self.member, time.monotonic())
        self.looking.tell()

    def _obey(self, order: orders.Order) -> None:
        if isinstance(order, orders.Offer):
            self.offering.offer(order.round)
        elif isinstance(order, orders.Begin):
            self._begin(order.notice, order.seat)
        elif isinstance(order, orders.Recall):
            if self.in_round and self.supervisor.phase in (Phase.RUNNING, Phase.YIELDING):
                self.console.event("round_recalled", round=self.started.roster.round)
                self.act_on(RoundRecalled())
        elif isinstance(order, orders.Release):
            self.let_servers_end()
        elif isinstance(order, orders.Answer):
            self.member.node.answers(time.monotonic(), self.ending.reached())
        elif isinstance(order, orders.Testify):
            testify(self.member.node, self.ending, failed=self.told_failure)
        elif isinstance(order, orders.LookAtWorkers):
            standing = self.standing()
            self.member.node.stands(yields=standing.yields, step=standing.step, pace=standing.pace)
        elif isinstance(order, orders.Yield):
            self._yield(order.step)
        elif isinstance(order, orders.Leave):
            self.final = order.ending
        elif isinstance(order, orders.TakeStacks | orders.Abort | orders.GoOn):
            self.hanging.obey(order)
        elif isinstance(order, orders.Look):
            self.looking.take()

    def _begin(self, notice: Notice, seat: int) -> None:
        held = self.offering.hand_over()
        seats = tuple(row.seat() for row in notice.seats)
        roster = completed(Roster(notice.round, notice.attempt, seats), self.spec.parts)
        card, name = self.member.node.card, self.member.node.name
        assert card is not None
        last_word = self.keys.nodes + name.encode(), encode_card(replace(card, state=DEAD))
        farewell = self.point.farewell(self.member.presence.lease, last_word)
        try:
            first = notice.round == 0
            started = start_workers(
                self.spec, self.environ, roster, seat, held, first=first, farewell=farewell, warm=self.warm
            )
        except FlotaError as error:
            release(held)
            self.member.node.swept(well=False)
            self.member.node.cannot_go_on(f"{os.uname().nodename}: {error.message}")
            return
        self.told_failure = self.told_doubt = self.told_work_is_done = False
        self.tidings.round_begins(started)
        # What follows a failure is the chair's to decide: here a round ends with its first one.
        once = RestartPolicy(0, enabled=False)
        roles = roles_of(self.spec, roster, tuple(plan.worker for plan in started.plans))
        supervisor = Supervisor(
            self.spec.workers, once, self.spec.grace, time.monotonic(), roles, self.spec.preempt_timeout
        )
        self.begin_round(started, supervisor)
        self._say_what_is_left()

    def stop(self, number: int) -> None:
        """Said to the others first: their workers fail when ours end."""
        over = self.final is not None
        standing = None
        if not over:
            asks = number == SIGTERM and self.in_round and self.supervisor.phase == Phase.RUNNING
            standing = self.standing() if asks else Standing(yields=False, step=NOW)
            self.member.node.stop(
                number, time.monotonic(), yields=standing.yields, step=standing.step, pace=standing.pace
            )
            self.advance()
        if (self.in_round and not (standing and standing.yields)) or over:
            super().stop(number)

    def _yield(self, step: int) -> None:
        """Who serves goes on serving until the job has ended."""
        self.agreed_step = step
        if self.supervisor.only_serves:
            self.member.node.has_nothing_to_yield()
        else:
            self.step(StopRequested(SIGTERM, gently=True))

    def step_to_yield_at(self) -> int:
        return self.agreed_step

    def step(self, event: Event) -> None:
        super().step(event)
        failures, doubts = self.supervisor.failures, self.supervisor.doubts
        if self.in_round and failures and (not self.told_failure or (self.told_doubt and not doubts)):
            self.told_failure, self.told_doubt = True, doubts
            self.member.node.failed(faults_of(self.ending, failures, self.started), self.ending.reached())
            self.advance()
        self._say_what_is_left()

    def _say_what_is_left(self) -> None:
        if self.in_round and self.supervisor.only_serves and not self.told_work_is_done:
            self.told_work_is_done = True
            self.member.node.only_serves()
            self.advance()

    def finish(self, verdict: Verdict) -> None:
        self.member.node.swept(well=verdict.kind == SUCCEEDED, yielded=verdict.exit_code == TRY_AGAIN)
        self.hanging.workers_are_gone()

    def on_stands(self, stands: bool) -> None:  # noqa: FBT001  as it is called
        self.hanging.stands(still=stands)

    def on_steps(self, seconds: dict[Who, float]) -> None:
        self.member.node.steps_take(seconds)
        self.advance()

    def start_again(self, action: StartRound) -> None:
        raise AssertionError(f"a round of many nodes does not restart by itself: {action}")

    def _has_rank_0(self) -> bool:
        """Who writes what there is one of: the node of rank 0, and of a job that never began every node."""
        return self.started.seat == 0 if self.ending.rounds else self.has_not_begun()

    def _report(self, ending: Ending) -> Report:
        """What the chair has decided, with what this node knows of its last round."""
        notice = self.member.node.notice
        attempt = notice.attempt if notice else 0
        verdict = Verdict(ending.kind, ending.code, attempt, (), ending.signal, ending.reason)
        return with_failures(self.ending.report(self.ending.last, verdict), failures_of(ending), ending.ended)
