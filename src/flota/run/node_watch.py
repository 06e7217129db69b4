"""A node of the command: a round with signals, console, failure evidence, hangs, stragglers and warm starts."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import os
import time
from abc import abstractmethod

from flota.control.door import ControlDoor
from flota.errors import TIMEOUT, TRY_AGAIN
from flota.host.process_start import SpareFiles
from flota.host.signals import Signals
from flota.humanize import counts_in_words, ending_in_words, signal_name
from flota.job.nodes import ALLOCATION, ONE_NODE
from flota.job.report import NO_STEP, STOPPED, Report, Verdict, ending_in_brief, reason_of_timeout
from flota.job.roles import label
from flota.job.spec import JobSpec
from flota.ledger.recorder import WorkRecorder
from flota.logs.last_room import LastRoom
from flota.logs.log_times import LogTimes, times_file
from flota.preemption.stop_step import NOW
from flota.run.console import Console
from flota.run.evidence import FailureEvidence
from flota.run.job_messages import stop_message
from flota.run.progress_watch import ProgressWatch
from flota.run.round_watch import RoundWatch
from flota.run.start import PASSED_ON, Started
from flota.run.time_limits import TimeLimits
from flota.run.worker_checks import check_deadlines, check_workers
from flota.stragglers.step_times import StepTimes
from flota.supervise.actions import Action, KillWorker, StartRound, StopWorker
from flota.supervise.events import (
    Event,
    HangFound,
    RoundRecalled,
    RoundSwept,
    StartFailed,
    StopRequested,
    WorkerExited,
    WorkerStarted,
    WorkIsDone,
)
from flota.supervise.supervisor import Phase, Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.chaos.injector import FaultInjector
    from flota.control.requests import JobRequests
    from flota.hangs.watch import HangWatch
    from flota.run.dashboard_process import DashboardProcess
    from flota.run.event_command import EventCommand
    from flota.run.view_process import ViewProcess
    from flota.standby.warm_start import WarmStart
    from flota.stragglers.detector import StepTime


class NodeWatch(RoundWatch):
    """The common base of jobs on one machine and on several."""

    started: Started
    view: ViewProcess | None = None
    page: DashboardProcess | None = None
    event_command: EventCommand | None = None
    chaos: FaultInjector | None = None
    hang_watch: HangWatch | None = None

    def __init__(
        self, spec: JobSpec, environ: Mapping[str, str], signals: Signals, warm: WarmStart | None = None
    ) -> None:
        super().__init__()
        gc.enable()  # disabled by cli/main.py
        self.spec, self.environ, self.warm = spec, environ, warm
        # An interactive worker shares the terminal: Ctrl-C reaches it directly, and it decides what that means.
        ignored = {int(_signal.SIGINT)} if spec.interactive else set()
        self.stop_signals = {int(getattr(_signal, name)) for name in spec.stop_signals} - ignored
        self.preempt_signal = int(getattr(_signal, spec.preempt_signal)) if spec.preempt_signal else 0
        self.signals = signals
        self.console = Console(spec, environ, self.loop)
        self.last_room = LastRoom()
        self.log_times = LogTimes()
        self.spare_files = SpareFiles()
        self.loop.on_wake = self._check_files
        self.control = ControlDoor(self)
        self.evidence = FailureEvidence(spec, time.monotonic(), time.time() - time.monotonic())
        self.exit_now = False  # a stop signal came after the workers had exited
        self.stopped_by = ""  # the first stop signal received
        self.stop_scope = ONE_NODE  # of the first stop signal
        self.time_limits = TimeLimits(self)
        self.saved_at = NO_STEP  # the step at which the workers were asked to save
        if warm:
            warm.attach(self.loop, self.console.say)
        if spec.lifeline >= 0:
            from flota.host.lifeline import Lifeline

            Lifeline(spec.lifeline, self.loop)
        self.ending = ""  # how the job has ended, in words
        self.step_times: StepTimes | None = None
        self.progress_watch = ProgressWatch(self)
        self.recorder: WorkRecorder | None = None
        self._add_parts()

    def _add_parts(self) -> None:
        """What few jobs have is imported only by those."""
        if self.spec.on_event:
            from flota.run.event_command import EventCommand

            self.event_command = EventCommand(self.console, self.environ)
        if self.spec.chaos:
            from flota.chaos.injector import FaultInjector

            self.chaos = FaultInjector(self, self.spec.chaos)
        if self.spec.hang_timeout is not None:
            from flota.hangs.watch import HangWatch

            self.hang_watch = HangWatch(self)

    def begin_round(self, started: Started, supervisor: Supervisor) -> None:
        self.started = started
        self.evidence.begin_round(started)
        self.watch_round(started.round, started.channel, supervisor)
        self.console.begin_round(started)
        now = time.monotonic()
        self.last_room.begin_round(started.marks, now)
        times = times_file(self.spec.log.directory, os.uname().nodename)
        self.log_times.begin_round(times, started.roster.round, started.marks, now)
        if self.warm:
            roles = [self.spec.all_roles[plan.worker.role] for plan in started.plans]
            working = [number for number, role in enumerate(roles) if not role.serves]
            self.warm.begin_round(started.round, started.channel, working)
        self.step_times = StepTimes(started, now)
        self.progress_watch.begin_round()
        self.recorder = WorkRecorder(started, self.console, now)
        if self.hang_watch:
            self.hang_watch.begin_round()
        if self.chaos:
            self.chaos.begin_round()
        if self.spec.dashboard and started.seat == 0:  # one node of a job serves the page
            from flota.run.dashboard_process import serve_page

            self.page = serve_page(self, self.spec.dashboard, self.page)

    def leave_round(self) -> None:
        if self.in_round:
            if self.warm:
                self.warm.end_round()
            if self.hang_watch:
                self.hang_watch.taker.stop()
            self.console.show_status("")
            super().leave_round()
            self.console.end_round(self.started)
            self.log_times.end_round()

    def turn(self, *deadlines: float | None) -> None:
        parts = self.warm, self.event_command, self.control, self.time_limits
        super().turn(*deadlines, *(part.deadline if part else None for part in parts), *check_deadlines(self))
        self.control.on_time(time.monotonic())
        self.time_limits.on_time(time.monotonic())
        if self.in_round:
            check_workers(self, time.monotonic())

    def wait(self, seconds: float | None) -> None:
        self.loop.turn(self.console.poll_timeout(seconds))
        self.console.pump()
        if self.warm:
            self.warm.on_time(time.monotonic())
        if self.event_command:
            self.event_command.on_time(time.monotonic())

    def _check_files(self) -> None:
        if self.spare_files.release_if_none_left():
            self.on_files_exhausted()

    def on_files_exhausted(self) -> None:
        self.console.say("WARNING", "this process has no file descriptors left; the workers keep running")

    @abstractmethod
    def on_idle(self, idle: bool) -> None:  # noqa: FBT001  as it is called back
        """Called when this node's workers stop making progress, or resume."""

    @abstractmethod
    def on_steps(self, steps: tuple[StepTime, ...], now: float) -> None:
        """Called with the step times of this node's ranks."""

    def link_latest(self) -> None:
        """Where each run has a directory of its own."""
        if self.spec.log.latest:
            from flota.logs.run_directory import link_latest

            if trouble := link_latest(self.spec.log):
                self.console.say("WARNING", trouble)

    def conclude(
        self, report: Report, *, writes: bool = True, printed_by: str = "", runs_command: bool = True
    ) -> Report:
        """Report how the job ended: first to files, then to the terminal, which may block. `printed_by`: the node that
        prints it for all, if another one does. `runs_command`: this node runs --on_event for the end of the job."""
        self.spare_files.release()
        self.last_room.release()  # on a full disk, that is the room for the report
        report = report._replace(stop_step=self.saved_at, ledger=self.console.make_ledger(report))
        self.console.write_report(report, to_file=writes)
        if self.event_command and runs_command:
            last = self.evidence.last
            self.event_command.report_end(report, last.roster.round if last else 0)
        self._flush_output()
        self.ending = ending_in_brief(report)
        if self.view:
            self.view.wait()
        self.console.show_report(report, printed_by)
        if self.chaos:
            self.console.say("INFO", self.chaos.verdict(report))
        self._flush_output()
        self.control.finish()
        if self.event_command:
            self.event_command.finish(self)
        if self.page:
            self.page.stop()
        self.evidence.close()
        return report

    def begin_view(self) -> None:
        if self.spec.view:
            from flota.run.view_process import ViewProcess

            self.view = ViewProcess(self)

    def _flush_output(self) -> None:
        """Write the remaining output. Waits for a blocked terminal until a stop signal arrives."""
        while self.console.has_more() and not self.exit_now:
            self.loop.turn(self.console.poll_timeout(None))
            self.console.pump()
        self.console.follower.finish()

    def on_signals(self) -> None:
        for number in self.signals.read():
            name = signal_name(number)
            if number == self.preempt_signal:
                self.begin_stop(name, int(_signal.SIGTERM), ALLOCATION)
            elif number in self.stop_signals:
                self.begin_stop(name, number)
            elif not self.in_round:
                continue
            elif name in PASSED_ON:
                self._send_to_all("signal", number)
            elif name == "SIGTSTP":
                # Workers lead their own sessions, where the kernel ignores SIGTSTP: send SIGSTOP instead.
                self._send_to_all("suspend", _signal.SIGSTOP)
                if self.console.follower.terminal:
                    self.console.end_line()  # the shell's prompt comes next
                _signal.raise_signal(_signal.SIGSTOP)
            elif name == "SIGCONT":
                self._send_to_all("suspend", _signal.SIGCONT)
            elif name == "SIGCHLD":
                self.round.reap_orphans()

    def begin_stop(self, name: str, number: int, scope: str = ONE_NODE) -> None:
        """Ask workers to stop before printing: a slow disk may block the output."""
        self.stop_scope = self.stop_scope if self.stopped_by else scope
        again, self.stopped_by = bool(self.stopped_by), self.stopped_by or name
        self.stop(number)
        if self.in_round and not again:
            verdict = Verdict(STOPPED, 128 + number, self.started.roster.attempt, signal=number)
            self.save_early(self.evidence.report(self.with_cause(verdict)))
        phase = self.supervisor.phase if self.in_round else ""
        if phase == Phase.STOPPING:
            cause = f"{name} received" if again else self.stop_cause
            message = stop_message(cause, number, len(self.supervisor.alive), self.spec.grace, again=again)
            self.console.say("INFO", message)
        elif phase != Phase.PREEMPTING or again:
            self.console.say("INFO", f"{name} received" if again else self.stop_cause)

    @property
    def stop_cause(self) -> str:
        """What stops the job, in words; empty if no signal and no time limit does."""
        happened = "has passed" if self.time_limits.timed_out else "received"
        return f"{self.stopped_by} {happened}" if self.stopped_by else ""

    def with_cause(self, verdict: Verdict) -> Verdict:
        """The verdict of a job with what stopped it, which may be --timeout."""
        if not self.time_limits.timed_out or verdict.kind != STOPPED:
            return verdict._replace(stopped_by=self.stopped_by if verdict.kind == STOPPED else "")
        reason = reason_of_timeout(self.time_limits.timed_out, saved=verdict.exit_code == TRY_AGAIN)
        return verdict._replace(exit_code=TIMEOUT, signal=0, reason=reason)

    def save_early(self, report: Report) -> None:
        """Leave a report for the case that a scheduler kills flota before the workers have exited."""
        self.console.save_report(report._replace(final=False))

    def stop(self, number: int) -> None:
        """Called when this node received a stop signal."""
        if self.in_round:
            self.step(StopRequested(number))
        else:
            self.exit_now = True

    def ask_to_stop_gracefully(self) -> int:
        """Ask workers to stop before printing: a slow disk may block the output."""
        step = super().ask_to_stop_gracefully()
        wait = self.spec.grace if self.spec.preempt_timeout is None else self.spec.preempt_timeout
        when = f" at step {step}" if step != NOW else ""
        cause = f"{self.stop_cause}; " if self.stopped_by else ""
        self.console.own_log.file_only = self.spec.log.shared_console and self.started.seat != 0
        self.console.say("INFO", f"{cause}asking all ranks to save and exit{when} (up to {wait:g} s)")
        self.console.own_log.file_only = False
        self.saved_at = step if step != NOW else NO_STEP
        return step

    def _send_to_all(self, word: str, number: int) -> None:
        for worker in self.supervisor.alive:
            self.round.send(word, worker, number)

    def step(self, event: Event) -> None:
        if isinstance(event, RoundSwept) and self.supervisor.failures:
            self.console.end_round(self.started)  # all output is in the logs now
            event = self.evidence.find(self.supervisor.failures)
        self.evidence.note(event)
        if self.hang_watch:
            self.hang_watch.note(event)
        if isinstance(event, WorkerExited) and self.supervisor.phase == Phase.RUNNING and self._is_failure(event):
            event = event._replace(is_secondary=self.evidence.is_secondary(event))
        self.console.record(event, self.started, **self._facts(event))
        if isinstance(event, WorkerExited | StartFailed) and self.supervisor.ignores_exit(event.worker):
            self._warn_of_ignored_exit(event)
        self.act_on(event)

    def _facts(self, event: Event) -> dict[str, object]:
        """What else is known about an event."""
        if isinstance(event, WorkerStarted) and self.warm:
            return self.warm.note_started(event.at)
        if isinstance(event, WorkerExited) and self.recorder:
            ignored = event.code != 0 and self.supervisor.ignores_exit(event.worker)
            return {**self.recorder.facts_of(event.worker), **({"ignored": True} if ignored else {})}
        return {}

    def _is_failure(self, event: WorkerExited) -> bool:
        return event.code != 0 and not event.asked_to_stop and not self.supervisor.ignores_exit(event.worker)

    def _warn_of_ignored_exit(self, event: WorkerExited | StartFailed) -> None:
        """Warn about a worker whose failure does not fail the job."""
        worker = self.started.plans[event.worker].worker
        if isinstance(event, StartFailed):
            failure = "could not be started"
        elif event.code == 0 or event.asked_to_stop:
            return
        else:
            failure = f"failed: {ending_in_words(event.code)}"
        if not self.supervisor.released:
            self.evidence.ignored.append((worker.name, worker.rank))
        effect = "ignored: all others had finished" if self.supervisor.released else "continuing without it"
        self.console.say("WARNING", f"{label(worker.name, worker.rank)} {failure}; {effect}; log: {worker.stderr}")

    def wait_for_servers(self) -> None:
        """All other workers have finished: give servers a moment to exit on their own before they are stopped."""
        names = [self.started.plans[worker].worker.name for worker in self.supervisor.alive]
        self.act_on(WorkIsDone())
        if self.in_round and self.supervisor.phase == Phase.LINGERING:
            servers = counts_in_words({name: names.count(name) for name in sorted(set(names))})
            wait = f"waiting {self.supervisor.server_exit_wait:g} s for {servers} to exit"
            self.console.say(
                "INFO", f"all other workers finished; {wait}, then stopping them (up to {self.spec.grace:g} s)"
            )

    def stop_hung_workers(self, event: HangFound | RoundRecalled, *, blind: bool) -> None:
        """Stop the workers of a hung round. `blind`: workers dump their own stacks as they die, so suspend all of them
        first: a worker that dies earlier would change the stacks of the others. Resume all, including workers that were
        suspended before, so that they can exit."""
        if blind:
            self._send_to_all("suspend", _signal.SIGSTOP)
        alive = set(self.supervisor.alive)
        self.step(event)
        for worker in alive:
            self.round.send("suspend", worker, _signal.SIGCONT)

    def perform(self, action: Action) -> None:
        if isinstance(action, StopWorker | KillWorker) and self.warm and self.round.is_pending:
            self.warm.discard_parked()
        if isinstance(action, StartRound):
            self.leave_round()
            self.restart_round(action)
        else:
            super().perform(action)
        if isinstance(action, StopWorker | KillWorker) and self.recorder:
            self.recorder.note_stop()

    @abstractmethod
    def restart_round(self, action: StartRound) -> None: ...

    @property
    @abstractmethod
    def requests(self) -> JobRequests:
        """What a user may ask of the running job."""
