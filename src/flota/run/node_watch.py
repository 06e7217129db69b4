"""What a node of the command adds to a round under way: signals, console, evidence, hangs, stragglers, warm starts."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import time
from abc import abstractmethod

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
    """What a job on one machine and one on many have in common."""

    started: Started

    def __init__(
        self, spec: JobSpec, environ: Mapping[str, str], signals: Signals, warm: WarmStart | None = None
    ) -> None:
        super().__init__()
        gc.enable()  # off since the command began
        self.spec = spec
        self.warm = warm
        self.environ = environ
        # An interactive worker shares the terminal: Ctrl-C reaches it directly, and it decides what that means.
        stops = [name for name in spec.stop_signals if not (spec.interactive and name == "SIGINT")]
        self.stop_signals = {int(getattr(_signal, name)) for name in stops}
        self.preempt_signal = int(getattr(_signal, spec.preempt_signal)) if spec.preempt_signal else 0
        self.signals = signals
        self.console = Console(spec, environ, self.loop)
        self.evidence = FailureEvidence(spec, time.monotonic(), time.time() - time.monotonic())
        self.hurried = False
        self.stopped_by = ""  # the signal that came first
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
        super().turn(*deadlines, self.warm.deadline if self.warm else None, *self._looks())
        if self.in_round:
            self._look_at_workers(time.monotonic())

    def wait(self, seconds: float | None) -> None:
        self.loop.turn(self.console.patience(seconds))
        self.console.pump()
        if self.warm:
            self.warm.on_time(time.monotonic())

    def _looks(self) -> tuple[float | None, ...]:
        if not self.in_round or self.supervisor.phase != Phase.RUNNING:
            return ()
        parts = self.hang_watch, self.step_times
        return tuple(part.deadline if part else None for part in parts)

    def _look_at_workers(self, now: float) -> None:
        if self.hang_watch:
            self.hang_watch.on_time(now)
        if self.step_times and now >= self.step_times.deadline:
            self.evidence.on_time(now)
            self.on_steps(self.step_times.read(self.working(), now), now)

    @abstractmethod
    def on_idle(self, idle: bool) -> None:  # noqa: FBT001  as it is called back
        """This node's workers make no progress, or seem to again."""

    @abstractmethod
    def on_steps(self, steps: tuple[StepTime, ...], now: float) -> None:
        """So long does a step take each rank of this node."""

    def link_latest(self) -> None:
        """Where each run has a directory of its own."""
        if self.spec.log.latest:
            from flota.logs.run_directory import link_latest

            trouble = link_latest(self.spec.log)
            if trouble:
                self.console.say("WARNING", trouble)

    def conclude(self, report: Report, *, writes: bool = True) -> Report:
        """Report how the job ended: to programs first, then to people, whose terminal may keep us waiting."""
        report = report._replace(stop_step=self.saved_at)
        self.console.write_report(report, alone=writes)
        self._show_the_rest()
        self.console.show_report(report, self.stopped_by)
        self._show_the_rest()
        self.evidence.close()
        return report

    def _show_the_rest(self) -> None:
        """A stalled terminal is waited for, as any program would wait; a stop signal ends that."""
        while self.console.has_more() and not self.hurried:
            self.loop.turn(self.console.patience(None))
            self.console.pump()
        self.console.follower.finish()

    def on_signals(self) -> None:
        for number in self.signals.read():
            name = signal_name(number)
            if number == self.preempt_signal:
                self._stop_by(name, int(_signal.SIGTERM))
            elif number in self.stop_signals:
                self._stop_by(name, number)
            elif not self.in_round:
                continue
            elif name in PASSED_ON:
                self._to_all("signal", number)
            elif name == "SIGTSTP":
                # Workers lead sessions of their own, where the kernel ignores SIGTSTP: SIGSTOP does the same to them.
                self._to_all("suspend", _signal.SIGSTOP)
                if self.console.follower.terminal:
                    self.console.follower.end_line()  # the shell's prompt comes next
                _signal.raise_signal(_signal.SIGSTOP)
            elif name == "SIGCONT":
                self._to_all("suspend", _signal.SIGCONT)
            elif name == "SIGCHLD":
                self.round.reap_orphans()

    def _stop_by(self, name: str, number: int) -> None:
        """First ask, then print: a slow disk may block the node, and workers do not wait for it."""
        again, self.stopped_by = bool(self.stopped_by), self.stopped_by or name
        self.stop(number)
        phase = self.supervisor.phase if self.in_round else ""
        if phase == Phase.STOPPING:
            message = stop_message(number, len(self.supervisor.alive), self.spec.grace, again=again)
            self.console.say("INFO", message)
        elif phase != Phase.PREEMPTING or again:
            self.console.say("INFO", f"{name} received")

    def stop(self, number: int) -> None:
        """A signal has asked this node to end."""
        if self.in_round:
            self.step(StopRequested(number))
        else:
            self.hurried = True

    def ask_to_stop_gracefully(self) -> int:
        """First ask, then print: a slow disk may block the node, and workers do not wait for it."""
        step = super().ask_to_stop_gracefully()
        wait = self.spec.grace if self.spec.preempt_timeout is None else self.spec.preempt_timeout
        when = f" at step {step}" if step != NOW else ""
        cause = f"{self.stopped_by} received; " if self.stopped_by else ""
        self.console.say("INFO", f"{cause}asking all ranks to save and exit{when} (up to {wait:g} s)")
        self.saved_at = step if step != NOW else NO_STEP
        return step

    def _to_all(self, word: str, number: int) -> None:
        for worker in self.supervisor.alive:
            self.round.send(word, worker, number)

    def step(self, event: Event) -> None:
        if isinstance(event, RoundSwept) and self.supervisor.failures:
            self.console.end_round(self.started)  # all that was said is in the logs
            event = self.evidence.find(self.supervisor.failures)
        self.evidence.note(event)
        if self.hang_watch:
            self.hang_watch.note(event)
        if isinstance(event, WorkerExited) and self.supervisor.phase == Phase.RUNNING and self._fails(event):
            event = event._replace(is_secondary=self.evidence.is_secondary(event))
        self.console.record(event, self.started)
        if isinstance(event, WorkerExited | StartFailed) and self.supervisor.ignores_exit(event.worker):
            self._tell_of_ignored(event)
        self.act_on(event)

    def _fails(self, event: WorkerExited) -> bool:
        return event.code != 0 and not event.asked_to_stop and not self.supervisor.ignores_exit(event.worker)

    def _tell_of_ignored(self, event: WorkerExited | StartFailed) -> None:
        """A bad end that is no failure of the job's would otherwise be seen by nobody."""
        worker = self.started.plans[event.worker].worker
        if isinstance(event, StartFailed):
            end = "could not be started"
        elif event.code == 0 or event.asked_to_stop:
            return
        else:
            end = f"ended with {ending_in_words(event.code)}"
        if not self.supervisor.released:
            self.evidence.ignored.append((worker.name, worker.rank))
        when = "after the work was done" if self.supervisor.released else "and the job goes on without it"
        self.console.say("WARNING", f"{label(worker.name, worker.rank)} {end}, {when}; log: {worker.stderr}")

    def let_servers_end(self) -> None:
        """The work is done: who only served is given time to end by itself."""
        names = [self.started.plans[worker].worker.name for worker in self.supervisor.alive]
        self.act_on(WorkIsDone())
        if self.in_round and self.supervisor.phase == Phase.LINGERING:
            left = counts_in_words({name: names.count(name) for name in sorted(set(names))})
            self.console.say("INFO", f"the work is done; {left} left, to end within {self.spec.grace:g} s")

    def end_hung(self, event: HangFound | RoundRecalled, *, blind: bool) -> None:
        """All at one moment where stacks are left behind: one that dies first would change the others'. Those that a
        signal has stopped go on, to their ends."""
        if blind:
            self._to_all("suspend", _signal.SIGSTOP)
        alive = set(self.supervisor.alive)
        self.step(event)
        for worker in alive:
            self.round.send("suspend", worker, _signal.SIGCONT)

    def perform(self, action: Action) -> None:
        if isinstance(action, StopWorker | KillWorker) and self.warm and self.round.is_pending:
            self.warm.discard_parked()
        if isinstance(action, StartRound):
            self.leave_round()
            self.start_again(action)
        else:
            super().perform(action)

    @abstractmethod
    def start_again(self, action: StartRound) -> None: ...
