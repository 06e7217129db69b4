"""A job on this machine alone, from its first round to its report.

Imported after the workers have been started, while their interpreters boot.
"""

from __future__ import annotations

import time

from flota.errors import FlotaError
from flota.host.signals import Signals
from flota.job.plan import roles_of
from flota.job.report import Report, Verdict
from flota.job.spec import JobSpec
from flota.run.start import Started, start_round
from flota.run.watch import Watch
from flota.supervise.actions import StartRound
from flota.supervise.events import Event, RoundNotStarted
from flota.supervise.machine import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Alone(Watch):
    def __init__(self, spec: JobSpec, environ: Mapping[str, str], signals: Signals, started: Started) -> None:
        super().__init__(spec, environ, signals)
        self.ending.began = started.began
        self.verdict: Verdict | None = None
        roles = roles_of(spec, started.roster, tuple(plan.worker for plan in started.plans))
        self.begin_round(started, Supervisor(spec.workers, spec.restarts, spec.grace, time.monotonic(), roles))

    def run(self, configuration: tuple[tuple[str, str], ...], notes: tuple[str, ...]) -> Report:
        self.loop.watch(self.signals.fd, self.on_signals)
        self.console.introduce(configuration, notes)
        self.console.show_first_round(self.started)
        self.console.event("round_started", round=0, attempt=0)
        while self.verdict is None:
            self.turn(None)
        return self.conclude(self.ending.report(self.started, self.verdict))

    def step(self, event: Event) -> None:
        super().step(event)
        if self.in_round and self.supervisor.only_serves:
            self.let_servers_end()

    def start_again(self, action: StartRound) -> None:
        self.console.tell_restart(action, self.started)
        try:
            started = start_round(self.spec, self.environ, action.round, action.attempt)
        except FlotaError as error:
            self.console.say("ERROR", f"cannot restart: {error.message}")
            self.step(RoundNotStarted())
            return
        self.console.event("round_started", round=action.round, attempt=action.attempt)
        self.begin_round(started, self.supervisor)

    def finish(self, verdict: Verdict) -> None:
        self.verdict = verdict
