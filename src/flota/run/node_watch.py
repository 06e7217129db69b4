"""A node of the command: a round with signals, console, failure evidence, hangs, stragglers and warm starts."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import time
from abc import abstractmethod

from flota.host.process_start import SpareFiles
from flota.host.signals import Signals
from flota.humanize import counts_in_words, ending_in_words, signal_name
from flota.job.report import NO_STEP, Report
from flota.job.roles import label
from flota.job.spec import JobSpec
from flota.preemption.stop_step import NOW
from flota.run.console import Console
from flota.run.evidence import FailureEvidence
from flota.run.job_messages import stop_message
from flota.run.round_watch import RoundWatch
from flota.run.start import PASSED_ON, Started
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
    WorkIsDone,
)
from flota.supervise.supervisor import Phase, Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.hangs.watch import HangWatch
    from flota.standby.warm_start import WarmStart
    from flota.stragglers.detector import StepTime


class NodeWatch(RoundWatch):
    """The common base of jobs on one machine and on several."""

    started: Started

    def __init__(
        self, spec: JobSpec, environ: Mapping[str, str], signals: Signals, warm: WarmStart | None = None
    ) -> None:
        super().__init__()
        gc.enable()  # disabled by cli/main.py
        self.spec = spec
        self.warm = warm
        self.environ = environ
        # An interactive worker shares the terminal: Ctrl-C reaches it directly, and it decides what that means.
        stops = [name for name in spec.stop_signals if not (spec.interactive and name == "SIGINT")]
        self.stop_signals = {int(getattr(_signal, name)) for name in stops}
        self.preempt_signal = int(getattr(_signal, spec.preempt_signal)) if spec.preempt_signal else 0
        self.signals = signals
        self.console = Console(spec, environ, self.loop)
        self.spare_files = SpareFiles()
        self.loop.on_wake = self._check_files
        self.evidence = FailureEvidence(spec, time.monotonic(), time.time() - time.monotonic())
        self.exit_now = False  # a stop signal came after the workers had exited
        self.stopped_by = ""  # the first stop signal received
        self.saved_at = NO_STEP  # the step at which the workers were asked to save
        if warm:
            warm.attach(self.loop, self.console.say)
        self.hang_watch: HangWatch | None = None
        self.step_times: StepTimes | None = None
        if spec.hang_timeout is not None:
            from flota.hangs.watch import HangWatch

            self.hang_watch = HangWatch(self)

    def begin_round(self, started: Started, supervisor: Supervisor) -> None:
        self.started = started
        self.evidence.begin_round(started)
        self.watch_round(started.round, started.channel, supervisor)
        self.console.begin_round(started)
        if self.warm:
            roles = [self.spec.all_roles[plan.worker.role] for plan in started.plans]
            working = [number for number, role in enumerate(roles) if not role.serves]
            self.warm.begin_round(started.round, started.channel, working)
        self.step_times = StepTimes(started, time.monotonic())
        if self.hang_watch:
            self.hang_watch.begin_round()

    def leave_round(self) -> None:
        if self.in_round:
            if self.warm:
                self.warm.end_round()
            if self.hang_watch:
                self.hang_watch.taker.stop()
            super().leave_round()
            self.console.end_round(self.started)

    def turn(self, *deadlines: float | None) -> None:
        super().turn(*deadlines, self.warm.deadline if self.warm else None, *self._check_deadlines())
        if self.in_round:
            self._check_workers(time.monotonic())

    def wait(self, seconds: float | None) -> None:
        self.loop.turn(self.console.poll_timeout(seconds))
        self.console.pump()
        if self.warm:
            self.warm.on_time(time.monotonic())

    def _check_files(self) -> None:
        if self.spare_files.release_if_none_left():
            self.on_files_exhausted()

    def on_files_exhausted(self) -> None:
        self.console.say("WARNING", "this process has no file descriptors left; the workers keep running")

    def _check_deadlines(self) -> tuple[float | None, ...]:
        if not self.in_round or self.supervisor.phase != Phase.RUNNING:
            return ()
        parts = self.hang_watch, self.step_times
        return tuple(part.deadline if part else None for part in parts)

    def _check_workers(self, now: float) -> None:
        if self.hang_watch:
            self.hang_watch.on_time(now)
        if self.step_times and now >= self.step_times.deadline:
            self.evidence.on_time(now)
            self.on_steps(self.step_times.read(self.working(), now), now)

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

            trouble = link_latest(self.spec.log)
            if trouble:
                self.console.say("WARNING", trouble)

    def conclude(self, report: Report, *, writes: bool = True) -> Report:
        """Report how the job ended: first to files, then to the terminal, which may block."""
        self.spare_files.release()
        report = report._replace(stop_step=self.saved_at)
        self.console.write_report(report, to_file=writes)
        self._flush_output()
        self.console.show_report(report, self.stopped_by)
        self._flush_output()
        self.evidence.close()
        return report

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
                self._on_stop_signal(name, int(_signal.SIGTERM))
            elif number in self.stop_signals:
                self._on_stop_signal(name, number)
            elif not self.in_round:
                continue
            elif name in PASSED_ON:
                self._send_to_all("signal", number)
            elif name == "SIGTSTP":
                # Workers lead their own sessions, where the kernel ignores SIGTSTP: send SIGSTOP instead.
                self._send_to_all("suspend", _signal.SIGSTOP)
                if self.console.follower.terminal:
                    self.console.follower.end_line()  # the shell's prompt comes next
                _signal.raise_signal(_signal.SIGSTOP)
            elif name == "SIGCONT":
                self._send_to_all("suspend", _signal.SIGCONT)
            elif name == "SIGCHLD":
                self.round.reap_orphans()

    def _on_stop_signal(self, name: str, number: int) -> None:
        """Ask workers to stop before printing: a slow disk may block the output."""
        again, self.stopped_by = bool(self.stopped_by), self.stopped_by or name
        self.stop(number)
        phase = self.supervisor.phase if self.in_round else ""
        if phase == Phase.STOPPING:
            message = stop_message(number, len(self.supervisor.alive), self.spec.grace, again=again)
            self.console.say("INFO", message)
        elif phase != Phase.PREEMPTING or again:
            self.console.say("INFO", f"{name} received")

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
        cause = f"{self.stopped_by} received; " if self.stopped_by else ""
        self.console.say("INFO", f"{cause}asking all ranks to save and exit{when} (up to {wait:g} s)")
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
        self.console.record(event, self.started)
        if isinstance(event, WorkerExited | StartFailed) and self.supervisor.ignores_exit(event.worker):
            self._warn_of_ignored_exit(event)
        self.act_on(event)

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
            self.console.say("INFO", f"all other workers finished; {wait}, then stopping (up to {self.spec.grace:g} s)")

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

    @abstractmethod
    def restart_round(self, action: StartRound) -> None: ...
