"""A running round: passes events from the loop to the supervisor, and performs the actions that it returns.

The command (run/node_watch.py) and the process behind flota.spawn (spawning/supervisor_process.py) both build on it.
The latter may be a fork of the user's program: import nothing here that only the command needs.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import time
from abc import ABC, abstractmethod

import flota.host.heartbeat_page  # noqa: F401  read later, when no descriptor may be left to import it
from flota.host.channel import Channel
from flota.host.loop import Loop
from flota.host.round import Round
from flota.job.report import Verdict
from flota.preemption.stop_step import NO_WORKERS, StopAnswer, agreed_step, read_progress, request_stop
from flota.supervise.actions import Action, AskToStopGracefully, Finish, KillWorker, StopWorker, SweepRound
from flota.supervise.events import DeadlinePassed, Event
from flota.supervise.supervisor import Phase, Supervisor


class RoundWatch(ABC):
    """A loop with at most one round at a time. `round`, `channel` and `supervisor` are set by the first round."""

    supervisor: Supervisor
    round: Round
    channel: Channel

    def __init__(self) -> None:
        self.loop = Loop()
        self.in_round = False

    def watch_round(self, round_: Round, channel: Channel, supervisor: Supervisor) -> None:
        self.round, self.channel, self.supervisor = round_, channel, supervisor
        self.in_round = True
        self.loop.watch(round_.fd, self._on_round)

    def leave_round(self) -> None:
        if self.in_round:
            self.in_round = False
            self.loop.forget(self.round.fd)
            self.channel.close()

    def turn(self, *deadlines: float | None) -> None:
        """One turn of the loop. Returns by the supervisor's deadline or the earliest of `deadlines`."""
        deadline, rounds = (self.supervisor.deadline, self.round.deadline) if self.in_round else (None, None)
        times = [time for time in (deadline, rounds, *deadlines) if time is not None]
        self.wait(max(0.0, min(times) - time.monotonic()) if times else None)
        if self.in_round:
            self.round.check_shepherd(time.monotonic())
        if deadline is None or not self.in_round or deadline != self.supervisor.deadline:
            return
        if time.monotonic() >= deadline:
            self.step(DeadlinePassed())

    def wait(self, seconds: float | None) -> None:
        self.loop.turn(seconds)

    def _on_round(self) -> None:
        fd = self.round.fd
        events = self.round.read()
        if self.round.fd != fd:  # the warm start failed, and the round was started cold
            self.loop.forget(fd)
            self.loop.watch(self.round.fd, self._on_round)
        for event in events:
            self.step(event)

    @abstractmethod
    def step(self, event: Event) -> None:
        """Record the event, then call `act_on`."""

    def act_on(self, event: Event) -> None:
        for action in self.supervisor.step(event, time.monotonic()):
            self.perform(action)

    def perform(self, action: Action) -> None:
        if isinstance(action, StopWorker):
            self.round.send("stop", action.worker, action.signal)
        elif isinstance(action, AskToStopGracefully):
            self.ask_to_stop_gracefully()
        elif isinstance(action, KillWorker):
            self.round.send("kill", action.worker, _signal.SIGKILL)
        elif isinstance(action, SweepRound):
            self.round.kill_remaining()
        elif isinstance(action, Finish):
            self.leave_round()
            self.finish(action.verdict)

    @abstractmethod
    def finish(self, verdict: Verdict) -> None: ...

    # Workers that can save and exit on their own.

    def working(self) -> set[int]:
        return self.supervisor.alive - self.supervisor.serving

    def progress(self) -> StopAnswer:
        return read_progress(self.channel, self.working()) if self.in_round else StopAnswer()

    def can_stop_gracefully(self) -> bool:
        progress = self.progress()
        return self.supervisor.phase == Phase.RUNNING and progress.can_stop and progress.step != NO_WORKERS

    def stop_step(self) -> int:
        """A step that no worker can pass before all have been asked to stop."""
        progress = self.progress()
        return agreed_step([progress.step], progress.pace)

    def ask_to_stop_gracefully(self) -> int:
        """Ask all workers to stop at the same step. Returns that step."""
        step = self.stop_step()
        request_stop(self.channel, self.round, self.working(), step)
        return step
