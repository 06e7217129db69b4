"""A running job: what the loop hears becomes events, what the supervisor wants is carried out.

Imported after the workers have been started, while their interpreters boot.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import time

from flota.errors import FlotaError
from flota.host.loop import Loop
from flota.host.signals import Signals, suspend_self
from flota.job.report import Report, Verdict
from flota.job.spec import JobSpec
from flota.run.console import Console
from flota.run.ending import Ending
from flota.run.start import PASSED_ON, Started, start_round
from flota.supervise.actions import Action, Finish, KillWorker, StartRound, StopWorker, SweepRound
from flota.supervise.blame import signal_name
from flota.supervise.events import DeadlinePassed, Event, RoundNotStarted, StopRequested
from flota.supervise.machine import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Watch:
    """One node's job from its first round to its report."""

    def __init__(self, spec: JobSpec, environ: Mapping[str, str], signals: Signals, started: Started) -> None:
        self.spec = spec
        self.environ = environ
        self.started = started
        self.loop = Loop()
        # An interactive worker shares the terminal: Ctrl-C reaches it directly, and it decides what that means.
        stops = [name for name in spec.stop_signals if not (spec.interactive and name == "SIGINT")]
        self.stop_signals = {int(getattr(_signal, name)) for name in stops}
        self.signals = signals
        self.supervisor = Supervisor(spec.workers, spec.restarts, spec.grace, time.monotonic())
        self.console = Console(spec, environ, self.loop)
        self.ending = Ending(spec, started.began)
        self.verdict: Verdict | None = None
        self.hurried = False
        self.in_round = False

    def run(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...]) -> Report:
        self.loop.watch(self.signals.fd, self._on_signals)
        self._watch_round()
        self.console.greet(self.started, configuration, notes)
        while self.verdict is None:
            self._turn()
        report = self.ending.report(self.started, self.verdict)
        self.console.write_down(report)
        self._show_the_rest()
        self.console.tell(report)
        self._show_the_rest()
        return report

    def _turn(self) -> None:
        deadline = self.supervisor.deadline
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        self.loop.turn(self.console.patience(wait))
        self.console.pump()
        if deadline is not None and deadline == self.supervisor.deadline and time.monotonic() >= deadline:
            self._step(DeadlinePassed())

    def _show_the_rest(self) -> None:
        """A stalled terminal is waited for, as any program would wait; a stop signal ends that."""
        while self.console.has_more() and not self.hurried:
            self.loop.turn(self.console.patience(None))
            self.console.pump()
        self.console.finish()

    def _watch_round(self) -> None:
        self.in_round = True
        self.loop.watch(self.started.round.fd, self._on_round)
        self.console.begin_round(self.started)

    def _leave_round(self) -> None:
        if self.in_round:
            self.in_round = False
            self.loop.forget(self.started.round.fd)
            self.console.end_round(self.started)

    def _on_round(self) -> None:
        for event in self.started.round.read():
            self._step(event)

    def _on_signals(self) -> None:
        for number in self.signals.read():
            name = signal_name(number)
            if number in self.stop_signals:
                self.hurried = self.verdict is not None
                self.console.say("INFO", f"{name} received")
                self._step(StopRequested(number))
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

    def _to_all(self, word: str, number: int) -> None:
        for worker in self.supervisor.alive:
            self.started.round.send(word, worker, number)

    def _step(self, event: Event) -> None:
        self.ending.note(event)
        self.console.record(event, self.started)
        for action in self.supervisor.step(event, time.monotonic()):
            self._perform(action)

    def _perform(self, action: Action) -> None:
        round_ = self.started.round
        if isinstance(action, StopWorker):
            round_.send("stop", action.worker, action.signal)
        elif isinstance(action, KillWorker):
            round_.send("kill", action.worker, _signal.SIGKILL)
        elif isinstance(action, SweepRound):
            round_.sweep()
        elif isinstance(action, StartRound):
            self._leave_round()
            self._restart(action)
        elif isinstance(action, Finish):
            self._leave_round()
            self.verdict = action.verdict

    def _restart(self, action: StartRound) -> None:
        self.console.tell_restart(action, self.started)
        try:
            self.started = start_round(self.spec, self.environ, action.round, action.attempt)
        except FlotaError as error:
            self.console.say("ERROR", f"cannot restart: {error.message}")
            self._step(RoundNotStarted())
            return
        self.ending.begin_round()
        self.console.event("round_started", round=action.round, attempt=action.attempt)
        self._watch_round()
