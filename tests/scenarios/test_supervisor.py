"""Replays the stories in supervisor/*.txt. A story is a line of words, a line of dashes, and what follows.

pytest tests/scenarios --rewrite    records what the supervisor does now; review it in the diff
"""

from __future__ import annotations

import signal

import pytest

from flota.job.roles import END, IGNORE, Role
from flota.job.spec import RestartPolicy
from flota.supervise.actions import AskToStopGracefully, Finish, KillWorker, StartRound, StopWorker, SweepRound
from flota.supervise.events import (
    DeadlinePassed,
    HangFound,
    RestartRequested,
    RoundNotStarted,
    RoundRecalled,
    RoundSwept,
    ShepherdLost,
    StartFailed,
    StopRequested,
    WorkerExited,
    WorkerStarted,
    WorkIsDone,
)
from flota.supervise.grace_period import restart_grace_of
from flota.supervise.supervisor import Supervisor
from tests.scenarios.stories import check, stories_about

ROLES = {
    "t": Role("trainer", 1),
    "s": Role("server", 1, serves=True),
    "i": Role("evaluator", 1, on_failure=IGNORE),
    "e": Role("data", 1, on_failure=END),
}
STORIES = stories_about("supervisor")


class SupervisorStage:
    """A supervisor, and a clock that the story moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.supervisor = None

    def play(self, line: str) -> str:
        verb, *words = line.split()
        facts = dict(word.split("=") for word in words)
        return getattr(self, f"do_{verb}")(**facts)

    def do_job(self, workers, restarts=None, level="-1", grace="30", roles="", restart_grace=None, elsewhere="no"):
        """`roles`: one letter a worker, s for one that serves, i for one whose failure is ignored, e for one whose
        failure ends the job, t for any other. `elsewhere`: the coordinator restarts the workers."""
        policy = RestartPolicy(
            int(restarts or 3), enabled=restarts is not None or int(level) >= 0, elastic_level=int(level)
        )
        own = tuple(ROLES[letter] for letter in roles)
        before_restart = restart_grace_of(float(grace), float(restart_grace) if restart_grace else None)
        self.supervisor = Supervisor(
            int(workers),
            policy,
            float(grace),
            self.now,
            own,
            None,
            before_restart,
            restarts_elsewhere=elsewhere == "yes",
        )
        return self._state([])

    def do_started(self, worker, pid="1"):
        return self._step(WorkerStarted(int(worker), int(pid), self.now))

    def do_exit(self, worker, code, asked_to_stop="no", secondary="no"):
        number = int(code) if code.lstrip("-").isdecimal() else -signal.Signals[code]
        return self._step(WorkerExited(int(worker), number, asked_to_stop == "yes", self.now, secondary == "yes"))

    def do_hang(self, worker, blind="no"):
        suspects = (int(worker),) if worker else ()
        return self._step(HangFound(suspects, ("no rank makes progress",), self.now, blind == "yes"))

    def do_explained(self, worker):
        return self._step(HangFound((int(worker),), ("in f at x.py:1",), self.now))

    def do_cannot_start(self, worker):
        return self._step(StartFailed(int(worker), 2, self.now))

    def do_done(self):
        assert self.supervisor.only_serves
        return self._step(WorkIsDone())

    def do_swept(self):
        return self._step(RoundSwept())

    def do_not_started(self):
        return self._step(RoundNotStarted())

    def do_shepherd_lost(self, code="-9"):
        return self._step(ShepherdLost(int(code), self.now))

    def do_stop(self, signal_name="SIGTERM", gracefully="no"):
        return self._step(StopRequested(signal.Signals[signal_name], gracefully == "yes"))

    def do_recalled(self, restarts):
        return self._step(RoundRecalled(restarts=restarts == "yes"))

    def do_restart(self):
        return self._step(RestartRequested())

    def do_pass(self, seconds):
        """Time passes; if the supervisor's deadline lies in it, it is told."""
        self.now += float(seconds)
        deadline = self.supervisor.deadline
        return self._step(DeadlinePassed()) if deadline is not None and deadline <= self.now else self._state([])

    def _step(self, event):
        return self._state(self.supervisor.step(event, self.now))

    def _state(self, actions):
        lines = [describe(action) for action in actions]
        deadline = self.supervisor.deadline
        waiting = f" until {deadline:g}s" if deadline is not None else ""
        return "\n".join([*lines, f"{self.supervisor.phase}{waiting}"])


def describe(action) -> str:
    match action:
        case StopWorker(worker, number):
            return f"stop {worker} {signal.Signals(number).name}"
        case AskToStopGracefully():
            return "ask to stop gracefully"
        case KillWorker(worker):
            return f"kill {worker}"
        case SweepRound():
            return "sweep"
        case StartRound(round_number, attempt, after):
            return f"start round={round_number} attempt={attempt} after={[failure.worker for failure in after]}"
        case Finish(verdict):
            return f"finish {verdict.kind} exit={verdict.exit_code} failed={[failure.worker for failure in verdict.failures]}"


@pytest.mark.parametrize("story", STORIES, ids=[story.stem for story in STORIES])
def test_story(story, request):
    check(story, SupervisorStage, rewrite=request.config.getoption("--rewrite"))


def test_there_are_stories():
    assert len(STORIES) >= 10
