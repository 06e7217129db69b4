"""A job on one machine, from its first round to its report.

Imported after the workers have been started, while their interpreters boot.
"""

from __future__ import annotations

import time

from flota.errors import FlotaError
from flota.host.signals import Signals
from flota.job.plan import roles_of
from flota.job.report import RESTART_REQUESTED, Report, Verdict, failure_in_brief
from flota.job.spec import JobSpec
from flota.run.node_watch import NodeWatch
from flota.run.start import Started, start_round
from flota.run.worker_ports import PortWait
from flota.stragglers.detector import SlowRankWatch
from flota.stragglers.step_times import report_changes
from flota.supervise.actions import StartRound
from flota.supervise.events import Event, RoundNotStarted, RoundSwept, StopRequested
from flota.supervise.grace_period import SIGTERM
from flota.supervise.supervisor import Phase, Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.hangs.wait_sites import RankPosition
    from flota.run.control_requests import SingleNodeRequests
    from flota.snapshots.copier_process import CopierProcess
    from flota.snapshots.memory import SnapshotMemory
    from flota.standby.warm_start import WarmStart
    from flota.stragglers.detector import SlowRank, StepTime


class SingleNode(NodeWatch):
    def __init__(
        self,
        spec: JobSpec,
        environ: Mapping[str, str],
        signals: Signals,
        started: Started,
        warm: WarmStart | None = None,
        snapshots: SnapshotMemory | None = None,
    ) -> None:
        super().__init__(spec, environ, signals, warm)
        self.snapshots = snapshots
        self.copier: CopierProcess | None = None
        if snapshots and spec.snapshot_dir:
            from flota.snapshots.copier_process import CopierProcess

            disk = spec.snapshot_dir, spec.snapshot_every
            self.copier = CopierProcess(snapshots, self.loop, self.console.say, environ, disk=disk)
        self.evidence.began = started.began
        self.verdict: Verdict | None = None
        self._pending_restart: StartRound | None = None  # a restart that waits for its backoff or its ports
        self._restart_at = 0.0
        self._port_wait = PortWait(self.console, spec.join_timeout)
        roles = roles_of(spec, started.roster, tuple(plan.worker for plan in started.plans))
        self.begin_round(started, Supervisor.of_spec(spec, spec.restarts, roles, time.monotonic()))
        self.time_limits.begin_round(time.monotonic() - started.began)

    def run(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...]) -> Report:
        self.loop.watch(self.signals.fd, self.on_signals)
        self.console.begin_job(configuration, notes)
        self.link_latest()
        self.console.show_first_round(self.started, self.started.began)
        roster = self.started.roster
        self.console.event("round_started", round=0, attempt=roster.attempt, workers=roster.workers)
        self.begin_view()
        while self.verdict is None:
            self.turn(
                self._restart_at if self._pending_restart else None, self.copier.deadline if self.copier else None
            )
            if self.copier:
                self.copier.on_time(time.monotonic())
            if self._pending_restart and time.monotonic() >= self._restart_at:
                self._start(self._pending_restart)
        if self.copier:
            self.copier.close()
        return self.conclude(self.evidence.report(self.verdict))

    def begin_round(self, started: Started, supervisor: Supervisor) -> None:
        super().begin_round(started, supervisor)
        if self.copier:
            self.copier.begin_round((), 0, started.plans, time.monotonic())
        elif self.snapshots:
            for line in self.snapshots.news:
                self.console.say("INFO", line)
        self.slow: tuple[SlowRank, ...] = ()
        self._slow_ranks = SlowRankWatch()

    def step(self, event: Event) -> None:
        if isinstance(event, RoundSwept) and self.hang_watch and self.hang_watch.blind:
            self.act_on(self.hang_watch.explain())
        super().step(event)
        if self.in_round and self.supervisor.only_serves:
            self.wait_for_servers()

    def restart_round(self, action: StartRound) -> None:
        culprit = self.evidence.found[0] if action.after else None
        if culprit:
            self.console.report_restart(action, culprit)
        if self.event_command:
            reason = failure_in_brief(culprit) if culprit else RESTART_REQUESTED
            self.event_command.report_restart(action.round, action.attempt, action.delay, culprit, reason)
        self.evidence.note_restart(action.round - 1, requested=culprit is None)
        if action.delay:
            self._pending_restart, self._restart_at = action, time.monotonic() + action.delay
        else:
            self._start(action)

    def _start(self, action: StartRound) -> None:
        self._pending_restart = None
        try:
            started = start_round(self.spec, self.environ, action.round, action.attempt, self.warm, self.snapshots)
        except FlotaError as error:
            next_try = self._port_wait.next_try(error, time.monotonic())
            if next_try is not None:
                self._pending_restart, self._restart_at = action, next_try
            else:
                self.console.say("ERROR", f"cannot restart: {error.message}")
                self.step(RoundNotStarted())
            return
        self._port_wait.end()
        workers = started.roster.workers
        self.console.event("round_started", round=action.round, attempt=action.attempt, workers=workers)
        self.begin_round(started, self.supervisor)

    def stop(self, number: int) -> None:
        if self._pending_restart:
            self._pending_restart = None
            self.step(RoundNotStarted(number))
            return
        if number == SIGTERM and self.can_stop_gracefully():
            self.step(StopRequested(number, gracefully=True))
        else:
            super().stop(number)

    @property
    def requests(self) -> SingleNodeRequests:
        from flota.run.control_requests import SingleNodeRequests

        return SingleNodeRequests(self)

    def on_idle(self, idle: bool) -> None:  # noqa: FBT001  as it is called
        if idle and self.hang_watch:
            self.hang_watch.take_stacks(self._on_stacks)

    def _on_stacks(self, positions: tuple[RankPosition, ...], blind: bool) -> None:  # noqa: FBT001  as it is called
        if self.hang_watch and self.supervisor.phase == Phase.RUNNING:
            self.stop_hung_workers(self.hang_watch.find_hang(positions, blind=blind), blind=blind)

    def on_steps(self, steps: tuple[StepTime, ...], now: float) -> None:
        roster = self.started.roster
        slow = self._slow_ranks.update(roster.round, self.slow, [(roster.seats[0].host, steps)], now)
        report_changes(self.console, self.slow, slow)
        self.slow = slow

    def finish(self, verdict: Verdict) -> None:
        self.verdict = self.with_cause(verdict)
