"""Rounds under way on this node: what the loop hears becomes events, what the supervisor wants is carried out."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import time

from flota.host.channel import WANTS_SIGNAL
from flota.host.loop import Loop
from flota.host.signals import Signals, suspend_self
from flota.job.report import Report, Verdict
from flota.job.roles import label
from flota.job.spec import JobSpec
from flota.run.console import Console
from flota.run.ending import Ending
from flota.run.start import PASSED_ON, Started
from flota.supervise.actions import Action, AskToYield, Finish, KillWorker, StartRound, StopWorker, SweepRound
from flota.supervise.blame import counts_in_words, ending_in_words, signal_name
from flota.supervise.events import DeadlinePassed, Event, StartFailed, StopRequested, WorkerExited, WorkIsDone
from flota.supervise.machine import Supervisor
from flota.supervise.phases import Phase
from flota.supervise.yielding import NO_OPINION, NOW
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Standing(NamedTuple):
    """Whether all of this node's workers that do the job's work can end by themselves, and how far the first is."""

    yields: bool
    step: int
    pace: float = 0.0  # steps a second


class Watch:
    """What a job on one machine and one on many have in common: one round at a time, and one loop."""

    supervisor: Supervisor
    started: Started

    def __init__(self, spec: JobSpec, environ: Mapping[str, str], signals: Signals) -> None:
        self.spec = spec
        self.environ = environ
        self.loop = Loop()
        # An interactive worker shares the terminal: Ctrl-C reaches it directly, and it decides what that means.
        stops = [name for name in spec.stop_signals if not (spec.interactive and name == "SIGINT")]
        self.stop_signals = {int(getattr(_signal, name)) for name in stops}
        self.signals = signals
        self.console = Console(spec, environ, self.loop)
        self.ending = Ending(spec, time.monotonic())
        self.hurried = False
        self.yield_at = NOW
        self.in_round = False

    def begin_round(self, started: Started, supervisor: Supervisor) -> None:
        self.started = started
        self.supervisor = supervisor
        self.in_round = True
        self.ending.begin_round()
        self.loop.watch(started.round.fd, self._on_round)
        self.console.begin_round(started)

    def leave_round(self) -> None:
        if self.in_round:
            self.in_round = False
            self.loop.forget(self.started.round.fd)
            self.console.end_round(self.started)
            self.started.channel.close()

    def turn(self, until: float | None) -> None:
        """One turn of the loop, until somebody's deadline at the latest."""
        deadline = self.supervisor.deadline if self.in_round else None
        times = [time for time in (deadline, until) if time is not None]
        wait = max(0.0, min(times) - time.monotonic()) if times else None
        self.loop.turn(self.console.patience(wait))
        self.console.pump()
        due = self.in_round and deadline is not None and deadline == self.supervisor.deadline
        if due and deadline is not None and time.monotonic() >= deadline:
            self.step(DeadlinePassed())

    def conclude(self, report: Report, *, writes: bool = True) -> Report:
        """Tell how the job ended: to programs first, then to people, who may keep us waiting."""
        if writes:
            self.console.write_down(report)
        self._show_the_rest()
        self.console.tell(report)
        self._show_the_rest()
        return report

    def _show_the_rest(self) -> None:
        """A stalled terminal is waited for, as any program would wait; a stop signal ends that."""
        while self.console.has_more() and not self.hurried:
            self.loop.turn(self.console.patience(None))
            self.console.pump()
        self.console.finish()

    def _on_round(self) -> None:
        for event in self.started.round.read():
            self.step(event)

    def on_signals(self) -> None:
        for number in self.signals.read():
            name = signal_name(number)
            if number in self.stop_signals:
                self.console.say("INFO", f"{name} received")
                self.stop(number)
            elif name == self.spec.preempt_signal:
                self.console.say("INFO", f"{name} received")
                self.stop(int(_signal.SIGTERM))
            elif not self.in_round:
                continue
            elif name in PASSED_ON:
                self._to_all("pass", number)
            elif name == "SIGTSTP":
                # Workers lead sessions of their own, where the kernel ignores SIGTSTP: SIGSTOP does the same to them.
                self._to_all("suspend", _signal.SIGSTOP)
                suspend_self()
            elif name == "SIGCONT":
                self._to_all("suspend", _signal.SIGCONT)
            elif name == "SIGCHLD":
                self.started.round.reap_strangers()

    def stop(self, number: int) -> None:
        """Somebody wants this node to end."""
        if self.in_round:
            self.step(StopRequested(number))
        else:
            self.hurried = True

    # Workers that can end by themselves.

    def standing(self) -> Standing:
        working = self.supervisor.alive - self.supervisor.serving if self.in_round else ()
        beats = [self.started.channel.read(worker) for worker in working]
        if not beats:
            return Standing(True, NO_OPINION)  # noqa: FBT003
        steps = [beat.step for beat in beats]
        pace = max((1 / beat.seconds for beat in beats if beat.seconds), default=0.0)
        return Standing(all(beat.listens for beat in beats), NOW if NOW in steps else max(steps), pace)

    def _ask_to_yield(self) -> None:
        wait = self.spec.grace if self.spec.preempt_timeout is None else self.spec.preempt_timeout
        when = f"after step {self.yield_at}" if self.yield_at != NOW else "now"
        self.console.say("INFO", f"the workers are asked to save and end {when}, within {wait:g} s")
        for worker in self.supervisor.alive - self.supervisor.serving:
            self.started.channel.tell_to_stop(worker, self.yield_at)
            if self.started.channel.read(worker).listens & WANTS_SIGNAL:
                self.started.round.send("stop", worker, _signal.SIGTERM)

    def _to_all(self, word: str, number: int) -> None:
        for worker in self.supervisor.alive:
            self.started.round.send(word, worker, number)

    def step(self, event: Event) -> None:
        self.ending.note(event)
        self.console.record(event, self.started)
        if isinstance(event, WorkerExited | StartFailed) and self.supervisor.forgives(event.worker):
            self._tell_of_forgiven(event)
        self.act_on(event)

    def _tell_of_forgiven(self, event: WorkerExited | StartFailed) -> None:
        """A bad end that is no failure of the job's would otherwise be seen by nobody."""
        worker = self.started.plans[event.worker].worker
        if isinstance(event, StartFailed):
            end = "could not be started"
        elif event.code == 0 or event.told:
            return
        else:
            end = f"ended with {ending_in_words(event.code)}"
        if not self.supervisor.released:
            self.ending.ignored.append((worker.name, worker.rank))
        when = "after the work was done" if self.supervisor.released else "and the job goes on without it"
        self.console.say("WARNING", f"{label(worker.name, worker.rank)} {end}, {when}; log: {worker.stderr}")

    def let_servers_end(self) -> None:
        """The work is done: who only served is given time to end by itself."""
        names = [self.started.plans[worker].worker.name for worker in self.supervisor.alive]
        self.act_on(WorkIsDone())
        if self.in_round and self.supervisor.phase == Phase.LINGERING:
            left = counts_in_words({name: names.count(name) for name in sorted(set(names))})
            self.console.say("INFO", f"the work is done; {left} left, to end within {self.spec.grace:g} s")

    def act_on(self, event: Event) -> None:
        for action in self.supervisor.step(event, time.monotonic()):
            self._perform(action)

    def _perform(self, action: Action) -> None:
        round_ = self.started.round
        if isinstance(action, StopWorker):
            round_.send("stop", action.worker, action.signal)
        elif isinstance(action, AskToYield):
            self._ask_to_yield()
        elif isinstance(action, KillWorker):
            round_.send("kill", action.worker, _signal.SIGKILL)
        elif isinstance(action, SweepRound):
            round_.sweep()
        elif isinstance(action, StartRound):
            self.leave_round()
            self.start_again(action)
        elif isinstance(action, Finish):
            self.leave_round()
            self.finish(action.verdict)

    def start_again(self, action: StartRound) -> None:
        raise NotImplementedError

    def finish(self, verdict: Verdict) -> None:
        raise NotImplementedError
