"""This node's part of a job on several machines: it joins the others, and runs the rounds that they agree on."""

from __future__ import annotations

import os
import time
from _socket import socket
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from flota.cluster import follower as actions
from flota.cluster import job_events
from flota.cluster.control_requests import open_control_port, requests_of
from flota.cluster.follower import Follower, NodeAction
from flota.cluster.job_report import make_report
from flota.cluster.job_state import JobState
from flota.cluster.lease_times import LEASE, lease_of
from flota.cluster.member import Member
from flota.cluster.messages import ClusterMessages
from flota.cluster.node_facts import collect_facts
from flota.cluster.node_record import DEAD, encode_record
from flota.cluster.questions import QUESTIONS, STACKS
from flota.cluster.reach import ReachCheck
from flota.cluster.registration import Registration
from flota.cluster.store_access import SERVE_RETRY, StoreAccess, choose_members
from flota.cluster.terms import blank_record, terms_of
from flota.errors import TRY_AGAIN, FlotaError
from flota.failures.roll_call import RollCallAnswer, sendable
from flota.hangs.question import PositionsAnswer
from flota.hangs.watch import StackAnswers
from flota.host.ports import release
from flota.host.signals import Signals
from flota.job.nodes import NodesSpec
from flota.job.plan import roles_of
from flota.job.printable import printable
from flota.job.report import NO_STEP, SUCCEEDED, JobEnding, PastRestart, Report, Verdict
from flota.job.roster import Roster, with_endpoints
from flota.job.spec import JobSpec, RestartPolicy
from flota.job.survey_outcomes import Question
from flota.logs.directory import open_directory
from flota.logs.run_directory import propose_time, resolve
from flota.preemption.stop_step import NOW
from flota.run.node_watch import NodeWatch
from flota.run.start import expected_processes, start_workers
from flota.run.worker_ports import PortWait, hold_ports
from flota.snapshots.copier_process import open_copier
from flota.snapshots.memory import SnapshotMemory
from flota.store.keys import keys_of
from flota.supervise.actions import StartRound
from flota.supervise.events import Event, RoundRecalled
from flota.supervise.grace_period import SIGTERM
from flota.supervise.supervisor import Phase, Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.control.requests import JobRequests
    from flota.standby.warm_start import WarmStart
    from flota.stragglers.detector import StepTime

MASTER_OUTAGE = 0.6  # of the lease: with the interval of renewals, a lost master is noticed within one lease
ETCD_OUTAGE = 60.0  # seconds that workers keep running without etcd; with more they could overlap with the next round
PRINT_TIME = 1.0  # seconds for the node that prints the report: mpirun kills all when one exits with an error
LEAVE_TIMEOUT = LEASE + 1.0  # seconds for the other nodes to receive the final job state


def run_multi_node(
    spec: JobSpec,
    environ: Mapping[str, str],
    signals: Signals,
    configuration: tuple[tuple[str, str], ...],
    notes: tuple[str, ...],
    warm: WarmStart | None,
) -> Report:
    assert spec.nodes is not None
    multi_node = MultiNode(spec, spec.nodes, environ, signals, warm)
    try:
        return multi_node.run(configuration, notes)
    finally:
        multi_node.close()


class MultiNode(NodeWatch):
    def __init__(
        self, spec: JobSpec, nodes: NodesSpec, environ: Mapping[str, str], signals: Signals, warm: WarmStart | None
    ) -> None:
        super().__init__(spec, environ, signals, warm)
        chosen = choose_members(self, nodes) if nodes.masters else None
        self.nodes = nodes = chosen.nodes if chosen else nodes
        self.keys = keys_of(printable(spec.job_id) if nodes.etcd else None)
        self.log_lock = -1  # until the directory of this run is known
        self.final: JobEnding | None = None
        self.agreed_step = NOW
        self.failure_reported = self.secondary_reported = self.idle_servers_reported = False
        self.messages = ClusterMessages(self.console, nodes, self._quiet_seconds)
        heard = self.messages.report_wrong_token, self.messages.report_full_store
        self.store = StoreAccess(spec, nodes, environ, self.loop, self.console, *heard)
        self.store.chosen_members = chosen
        self.nodes = self.store.nodes  # with the certificates that were made for this node
        self.control_port = open_control_port(self.control, spec, self.nodes, self.requests.token)
        self.snapshots = SnapshotMemory(spec.snapshot_memory, spec.snapshot_dir)
        self.copier = open_copier(self)
        self.facts = collect_facts(spec)
        self.reach_check = ReachCheck(self.loop, lambda where: self.follower.report_unreached(where))  # noqa: PLW0108
        self.run_name = f"{spec.run_id}/{propose_time(spec, serves=self.store.master is not None)}"
        self.member = self._make_member(os.urandom(8).hex(), time.monotonic())
        self.serve_again_at = time.monotonic() + SERVE_RETRY
        self.held_ports: list[socket] = []  # from the offer on: the roster promises them to all nodes
        self.port_wait = PortWait(self.console, spec.join_timeout)
        self.offer_again = 0.0, 0  # when and for which round, if the ports were not free
        self.stack_answers = StackAnswers(self)
        self.roll_call = Question(0, "")  # the last roll call, and this node's answer
        self.roll_call_answer = RollCallAnswer(0.0)
        self.stopped_gracefully = True
        self.last_restart: tuple[PastRestart, ...] = ()  # the last one that this node has heard of

    def close(self) -> None:
        for part in (self.store, self.messages, self.reach_check, self.copier, self.snapshots):
            part.close()
        if self.log_lock >= 0:
            os.close(self.log_lock)
        self.stack_answers.taker.stop()
        self._release_ports()

    @property
    def follower(self) -> Follower:
        return self.member.follower

    def _make_member(self, name: str, began: float) -> Member:
        spec, nodes = self.spec, self.nodes
        serves, host = self.store.master is not None, os.uname().nodename
        ports = {"control": self.control_port, "copier": self.copier.port}
        blank = blank_record(spec, nodes, host, serves=serves, facts=self.facts, **ports)
        ttl = lease_of(nodes)
        follower = Follower(
            name,
            blank,
            join_timeout=nodes.join_timeout,
            outage_limit=max(ETCD_OUTAGE, ttl) if nodes.etcd else MASTER_OUTAGE * ttl,
        )
        registration = Registration(
            self.store.client, self.keys, name, ttl, may_coordinate=nodes.etcd or serves, clock=time.monotonic
        )
        terms = terms_of(spec, nodes, self.run_name)
        return Member(follower, registration, terms, self.store.where, began, self.evidence.epoch)

    @property
    def requests(self) -> JobRequests:
        return requests_of(self)

    def run(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...]) -> Report:
        self.loop.watch(self.signals.fd, self.on_signals)
        if self.warm:
            self.warm.prepare(expected_processes(self.spec, self.environ))
        self.link_latest()
        if self.store.master:
            self._use_run_name(self.run_name)
        self.messages.introduce(configuration, notes, self.store)
        self.begin_view()
        self.advance()
        while self.final is None:
            self._turn()
        left_at = time.monotonic()
        while self._must_stay(time.monotonic() - left_at) and time.monotonic() < left_at + LEAVE_TIMEOUT:
            self._turn(left_at + (PRINT_TIME if time.monotonic() < left_at + PRINT_TIME else LEAVE_TIMEOUT))
        self._use_run_name(job.run_name if (job := self.follower.job_state) else "")  # if no round has begun
        job_events.report_own_failure(self, self.final)
        runs_command = job_events.runs_command_at_end(self, self.final)
        report, printed_by = self._report(self.final), self._printed_by()
        return self.conclude(report, writes=self._has_rank_0(), printed_by=printed_by, runs_command=runs_command)

    def _must_stay(self, seconds: float) -> bool:
        if seconds < PRINT_TIME and self.final and self.final.code and self._printed_by():
            return not self.exit_now
        is_gone = self.member.is_gone(time.monotonic())
        return not self.exit_now and (not is_gone or self.store.is_needed(self.keys, self.follower.job_state))

    def _printed_by(self) -> str:
        """The node that prints the report on the console that all nodes share; empty: this node does."""
        job, own = self.follower.job_state, self.follower.name
        if not self.spec.log.shared_console or job is None or job.ending != self.final or job.reports == own:
            return ""  # each has its own console, or the job ended for this node only
        return f"node {seat} ({job.seats[seat].host})" if (seat := job.seat_of(job.reports)) >= 0 else "the coordinator"

    def _use_run_name(self, run_name: str) -> None:
        """Use the run id that the nodes agreed on. Open the directory of this run, unless that has been done."""
        run_id, _, log_time = (run_name or self.run_name).rpartition("/")
        self.spec = self.spec._replace(run_id=run_id)
        if self.spec.log.per_run:
            spec = resolve(self.spec, log_time)
            self.log_lock = open_directory(spec.log.directory, spec.job_id, shared=True)
            self.spec = self.evidence.spec = spec
            self.console.use_directory(spec)
            self.link_latest()

    def _turn(self, until: float | None = None) -> None:
        parts = (self.member, self.store, self.messages, self.stack_answers.taker, self.reach_check, self.copier)
        retries = (self.serve_again_at if self._waits_for_store() else None, self.offer_again[0] or None)
        times = [*(part.deadline for part in parts), *retries, until]
        self.turn(min((time for time in times if time is not None), default=None))
        now = time.monotonic()
        self.follower.report_warming(warming=self.warm is not None and self.warm.is_warming)
        self.store.on_time(now)
        self._serve_if_no_node_does(now)
        if self.offer_again[0] and now >= self.offer_again[0]:
            self._offer(self.offer_again[1])
        for part in (self.stack_answers.taker, self.reach_check, self.copier):
            part.on_time(now)
        deadline = self.member.registration.deadline
        if deadline is not None and now >= deadline:
            self.member.registration.reconcile()
        self.advance()

    def _serve_if_no_node_does(self, now: float) -> None:
        """Try again to serve the master: when this node started, its name may not have been resolvable yet, or the
        port may still have been in use by the last job."""
        if now >= self.serve_again_at:
            self.serve_again_at = time.monotonic() + self.store.serve_interval
            if self._waits_for_store() and self.store.take_over():
                self.messages.warn(self.store)
                self.member = self._make_member(self.follower.name, self.member.began)
            elif self._waits_for_store() and self.member.registration.trouble:
                self.store.check_port_owner()

    def _waits_for_store(self) -> bool:
        return self.member.silent_since is not None and self.has_not_begun()

    def has_not_begun(self) -> bool:
        return self.follower.job_state is None or not self.follower.job_state.seats

    def advance(self) -> None:
        """Perform actions until there are none left."""
        while wanted := self.member.advance(time.monotonic()):
            for action in wanted:
                self._perform(action)
        if self.event_command:
            self.last_restart = job_events.report_restarts(self, self.event_command)
        self.messages.report(self.member, time.monotonic())
        self.control.deliver()

    def _perform(self, action: NodeAction) -> None:
        if isinstance(action, actions.Offer):
            self._offer(action.round)
        elif isinstance(action, actions.Begin):
            self._begin(action.job_state, action.seat)
        elif isinstance(action, actions.Recall):
            if self.in_round and self.supervisor.phase in (Phase.RUNNING, Phase.PREEMPTING):
                self.console.event("round_recalled", round=self.started.roster.round)
                self.act_on(RoundRecalled(restarts=self.follower.expects_restart(self.spec.restarts)))
                if self.follower.ending:
                    self.save_early(self._report(self.follower.ending))
        elif isinstance(action, actions.Release):
            self.wait_for_servers()
        elif isinstance(action, actions.AnswerQuestion):
            QUESTIONS[action.question.kind].answer(self, action.question, action.workers_gone)
        elif isinstance(action, actions.ResumeRound):
            if self.hang_watch and self.in_round:
                self.hang_watch.resume()
        elif isinstance(action, actions.Leave):
            self.final = action.ending

    def time_of_day(self) -> float:
        return time.monotonic() + self.evidence.epoch

    def reply(self, question: Question, body: Any) -> None:
        self.follower.reply(question, body)
        self.advance()

    def _offer(self, round_number: int) -> None:
        """Reserve new ports for this round, and offer them."""
        self._release_ports()
        self.offer_again = 0.0, 0
        self.stopped_gracefully = True  # no workers of this round exist yet
        try:
            self.held_ports, ports = hold_ports(self.spec)
        except FlotaError as error:
            if self.has_not_begun():
                raise  # an error of this node's user, not of the job
            again = self.port_wait.next_try(error, time.monotonic())
            if again is None:
                self._give_up(error)
            else:
                self.offer_again = again, round_number
            return
        self.port_wait.end()
        self.follower.offered(ports, round_number, self.snapshots.held())

    def _release_ports(self) -> None:
        release(self.held_ports)
        self.held_ports = []

    def _give_up(self, error: FlotaError) -> None:
        self.follower.give_up(f"{os.uname().nodename}: {error.message}")

    def _begin(self, job_state: JobState, seat: int) -> None:
        roster = with_endpoints(Roster(job_state.round, job_state.attempt, job_state.seats), self.spec.all_roles)
        record, name = self.follower.record, self.follower.name
        assert record is not None
        final_put = self.keys.nodes + name.encode(), encode_record(replace(record, state=DEAD))
        report_death = self.store.on_node_death(self.member.registration.lease, final_put)
        held, first = self.held_ports, job_state.round == 0
        self.reach_check.begin(job_state.seats, seat, time.monotonic())
        try:
            self._use_run_name(job_state.run_name)
            start = partial(start_workers, on_node_death=report_death, snapshots=self.snapshots, warm=self.warm)
            started = start(self.spec, self.environ, roster, seat, held, first=first, agreed=job_state.snapshots)
        except FlotaError as error:
            self._release_ports()
            self.follower.workers_ended(succeeded=False)
            self._give_up(error)
            return
        self.held_ports = []  # now owned by the round
        self.copier.begin_round(job_state.seats, seat, started.plans, time.monotonic())
        self.failure_reported = self.secondary_reported = self.idle_servers_reported = False
        self.messages.report_round(started)
        # The coordinator decides what follows a failure: here the first one ends the round.
        once = RestartPolicy(0, enabled=False)
        roles = roles_of(self.spec, roster, tuple(plan.worker for plan in started.plans))
        restarts = self.follower.expects_restart(self.spec.restarts)
        supervisor = Supervisor.of_spec(self.spec, once, roles, time.monotonic(), restarts_elsewhere=restarts)
        self.saved_at = NO_STEP  # if a node has left since the workers saved
        self.begin_round(started, supervisor)
        self.time_limits.begin_round(job_state.elapsed)
        self._report_only_servers()

    def stop(self, number: int) -> None:
        """Inform the other nodes first: their workers fail when ours end."""
        if self.final is not None:
            super().stop(number)  # a second request, while this node leaves
            return
        asks = number == SIGTERM and self.in_round and self.supervisor.phase == Phase.RUNNING
        can_stop = asks and self.progress().can_stop
        now, limit, by = time.monotonic(), self.time_limits.timed_out, self.stopped_by
        self.follower.stop(number, now, can_stop=can_stop, scope=self.stop_scope, timed_out=limit, stopped_by=by)
        self.advance()
        if self.in_round and not can_stop:
            super().stop(number)

    def save_early(self, report: Report) -> None:
        if self._has_rank_0():
            super().save_early(report)

    def stop_step(self) -> int:
        return self.agreed_step

    def step(self, event: Event) -> None:
        super().step(event)
        failures, secondary = self.supervisor.failures, self.supervisor.awaits_first_failure
        if self.in_round and failures and (not self.failure_reported or (self.secondary_reported and not secondary)):
            self.failure_reported, self.secondary_reported = True, secondary
            found = tuple(sendable(self.evidence.complete(failure)) for failure in failures)
            self.follower.report_failures(found)
            self.advance()
        self._report_only_servers()

    def _report_only_servers(self) -> None:
        if self.in_round and self.supervisor.only_serves and not self.idle_servers_reported:
            self.idle_servers_reported = True
            self.follower.report_serving()
            self.advance()

    def finish(self, verdict: Verdict) -> None:
        succeeded = verdict.kind == SUCCEEDED
        self.stopped_gracefully = succeeded or verdict.exit_code == TRY_AGAIN
        self.follower.workers_ended(succeeded=succeeded)

    def on_files_exhausted(self) -> None:
        super().on_files_exhausted()
        if self.store.master:
            self.store.master.stop_growing()

    def on_idle(self, idle: bool) -> None:  # noqa: FBT001  as it is called
        assert self.hang_watch
        detector = self.hang_watch.detector
        self.follower.report_idle(time.monotonic() - detector.last_sign if idle else 0.0, detector.timeout)
        job_state = self.follower.job_state
        if not idle and job_state and job_state.question and job_state.asks(STACKS):
            self.follower.reply(job_state.question, PositionsAnswer(makes_progress=True))
        self.advance()

    def _quiet_seconds(self) -> float:
        return round(time.monotonic() - self.hang_watch.detector.last_sign, 6) if self.hang_watch else 0.0

    def on_steps(self, steps: tuple[StepTime, ...], now: float) -> None:  # noqa: ARG002  the coordinator compares ranks
        self.follower.report_steps(steps)
        self.advance()

    def restart_round(self, action: StartRound) -> None:
        raise AssertionError(f"a round of many nodes does not restart on its own: {action}")

    def _has_rank_0(self) -> bool:
        """Whether this node writes the job's report: the node of rank 0 does, or every node if the job never began."""
        return self.started.seat == 0 and not self.follower.is_spare if self.evidence.rounds else self.has_not_begun()

    def _report(self, ending: JobEnding) -> Report:
        return make_report(self.evidence, self.follower.job_state, ending)
