"""Any order of events keeps the supervisor's promises."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from flota.job.causes import NOT_STARTED
from flota.job.report import FAILED, STOPPED, SUCCEEDED
from flota.job.roles import END, IGNORE, Role
from flota.job.spec import RestartPolicy
from flota.supervise.actions import AskToStopGracefully, Finish, KillWorker, StartRound, StopWorker, SweepRound
from flota.supervise.events import (
    DeadlinePassed,
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
from flota.supervise.supervisor import Supervisor

EXAMPLES = 5000 if os.environ.get("FLOTA_SOAK") else 400


class World:
    """Processes as the operating system would have them: only what can happen does, in any order."""

    def __init__(self, workers: int, policy: RestartPolicy, roles: tuple[Role, ...] = ()) -> None:
        self.supervisor = Supervisor(workers, policy, 30.0, 0.0, roles)
        self.workers = workers
        self.roles = roles
        self.now = 0.0
        self.alive = set(range(workers))
        self.awaited = set(range(workers))  # of whose start nothing was heard
        self.told: set[int] = set()
        self.killed: set[int] = set()
        self.sweeping = False
        self.shepherd = True
        self.starts = 1
        self.verdicts = []
        self.ports_taken = False
        self.released = False

    def feed(self, event) -> None:
        self.now += 1
        for action in self.supervisor.step(event, self.now):
            self.perform(action)

    def perform(self, action) -> None:
        assert not self.verdicts, "nothing is done after the verdict"
        match action:
            case StopWorker(worker, _):
                assert worker in self.alive
                self.told.add(worker)
            case AskToStopGracefully():
                assert self.alive
            case KillWorker(worker):
                assert worker in self.alive
                self.told.add(worker)
                self.killed.add(worker)
            case SweepRound():
                assert not self.sweeping, "a round is swept once"
                assert not self.alive or not self.shepherd, "swept only when workers have ended"
                self.sweeping = True
            case StartRound(_, _, after):
                assert not self.alive and not self.sweeping, "no live rank is started twice"
                assert not self.released, "what is done is not done again"
                assert not self.is_of(after[0].worker, END), "a final failure is followed by nothing"
                if self.ports_taken:
                    self.starts += 1
                    self.feed(RoundNotStarted())
                    return
                self.alive, self.awaited = set(range(self.workers)), set(range(self.workers))
                self.told, self.killed, self.shepherd = set(), set(), True
                self.starts += 1
            case Finish(verdict):
                assert not self.alive, "nobody is left alive"
                self.verdicts.append(verdict)

    def possible(self) -> list[str]:
        """What the operating system could do now."""
        if self.sweeping:
            return ["swept", "stop", "take ports"]
        if not self.alive:
            return ["stop"]
        choices = ["exit", "die", "stop"]
        if self.supervisor.deadline is not None:
            choices.append("deadline")
        if self.shepherd:
            choices.append("lose shepherd")
        if self.shepherd and self.awaited & self.alive:
            choices += ["started", "cannot start"]
        if self.supervisor.only_serves:
            choices += ["release", "release"]
        return choices

    def happen(self, what: str, number: int) -> None:
        among = sorted(self.alive & self.awaited if what in ("started", "cannot start") else self.alive)
        worker = among[number % len(among)] if among else 0
        match what:
            case "started":
                self.awaited.discard(worker)
                self.feed(WorkerStarted(worker, 100 + worker, self.now))
            case "cannot start":
                self.alive.discard(worker)
                self.feed(StartFailed(worker, 2, self.now))
            case "release":
                self.released = True
                self.feed(WorkIsDone())
            case "recall":
                self.feed(RoundRecalled())
            case "exit" | "die":
                code = -9 if what == "die" or worker in self.killed else number % 3
                self.alive.discard(worker)
                self.feed(WorkerExited(worker, code, worker in self.told, self.now))
            case "take ports":
                self.ports_taken = True
            case "stop":
                self.feed(StopRequested((2, 15, 1)[number % 3], gracefully=number % 2 == 0))
            case "deadline":
                self.now = max(self.now, self.supervisor.deadline)
                self.feed(DeadlinePassed())
            case "lose shepherd":
                self.shepherd = False
                self.feed(ShepherdLost(-9, self.now))
            case "swept":
                self.sweeping = False
                self.alive.clear()
                self.feed(RoundSwept())

    def is_of(self, worker: int, on_failure: str) -> bool:
        return bool(self.roles) and worker >= 0 and self.roles[worker].on_failure == on_failure


policies = st.builds(
    RestartPolicy, limit=st.integers(0, 3), enabled=st.booleans(), elastic_level=st.sampled_from([-1, 0, 1])
)
moves = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=60)
casts = st.lists(
    st.sampled_from(
        [
            Role("trainer", 1),
            Role("server", 1, serves=True),
            Role("evaluator", 1, on_failure=IGNORE),
            Role("reader", 1, on_failure=END),
            Role("cache", 1, serves=True, on_failure=IGNORE),
            Role("scheduler", 1, serves=True, on_failure=END),
        ]
    ),
    min_size=1,
    max_size=5,
).map(tuple)


@settings(max_examples=EXAMPLES)
@given(workers=st.integers(1, 5), policy=policies, moves=moves)
def test_any_order_of_events_ends_once_with_no_worker_alive(workers, policy, moves):
    world = World(workers, policy)
    for choice, number in moves:
        if world.verdicts:
            break
        possible = world.possible()
        world.happen(possible[choice % len(possible)], number)
    finish(world)

    assert len(world.verdicts) == 1
    assert world.starts <= (policy.limit + 1 if policy.enabled else 1)
    verdict = world.verdicts[0]
    assert (verdict.exit_code == 0) == (verdict.kind == SUCCEEDED)
    assert (verdict.kind == FAILED) <= bool(verdict.failures)
    assert (verdict.kind == STOPPED) == bool(verdict.signal)


def finish(world: World) -> None:
    """From any point, when everybody ends, the job ends."""
    for _ in range(200):
        if world.verdicts:
            return
        assert world.alive or world.sweeping, "everybody has ended, and the supervisor waits for somebody"
        world.happen("swept" if world.sweeping else "exit", 0)
    raise AssertionError("the job never ends")


@settings(max_examples=EXAMPLES)
@given(workers=st.integers(1, 4), policy=policies, moves=moves)
def test_after_a_stop_nothing_restarts(workers, policy, moves):
    world = World(workers, policy)
    world.happen("stop", 1)
    for choice, number in moves:
        if world.verdicts:
            break
        possible = world.possible()
        world.happen(possible[choice % len(possible)], number)
    finish(world)

    assert world.starts == 1
    assert world.verdicts[0].kind == STOPPED


@settings(max_examples=EXAMPLES)
@given(roles=casts, policy=policies, moves=moves)
def test_any_order_of_events_ends_a_job_with_roles_once(roles, policy, moves):
    world = World(len(roles), policy, roles)
    for choice, number in moves:
        if world.verdicts:
            break
        possible = world.possible()
        world.happen(possible[choice % len(possible)], number)
    finish(world)

    (verdict,) = world.verdicts
    assert world.starts <= (policy.limit + 1 if policy.enabled else 1)
    assert not world.released or verdict.kind == SUCCEEDED
    assert (verdict.exit_code == 0) == (verdict.kind == SUCCEEDED)
    failed = [failure for failure in verdict.failures if failure.cause != NOT_STARTED]
    assert not [failure for failure in failed if world.is_of(failure.worker, IGNORE)], "nobody's business"
    assert all(failure.final == world.is_of(failure.worker, END) for failure in failed)


@settings(max_examples=EXAMPLES)
@given(roles=casts, moves=moves, recalls=st.integers(0, 60))
def test_a_job_of_many_nodes_is_released_or_recalled_at_any_moment(roles, moves, recalls):
    """There a round never restarts by itself; what has been released has ended well, whatever comes after."""
    world = World(len(roles), RestartPolicy(0), roles)
    for turn, (choice, number) in enumerate(moves):
        if world.verdicts:
            break
        possible = [*world.possible(), *(["recall"] if turn >= recalls else [])]
        world.happen(possible[choice % len(possible)], number)
    finish(world)

    (verdict,) = world.verdicts
    assert world.starts == 1
    assert not world.released or (verdict.kind, verdict.exit_code, verdict.failures) == (SUCCEEDED, 0, ())
