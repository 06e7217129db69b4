"""The supervisor of one node's workers: decides what to do, and never acts, waits or reads the clock. Pure."""

from __future__ import annotations

from flota.errors import BUG, HANG, TRY_AGAIN
from flota.job.causes import EXITED, HUNG, LEFT_EARLY, NOT_STARTED, SHEPHERD_LOST, SIGNALLED, is_hang
from flota.job.report import FAILED, STOPPED, SUCCEEDED, FailedWorker, Verdict, exit_code_of_all
from flota.job.roles import END, IGNORE, Role
from flota.job.spec import JobSpec, RestartPolicy
from flota.supervise.actions import Action, AskToStopGracefully, Finish, StartRound, SweepRound
from flota.supervise.events import (
    DeadlinePassed,
    Event,
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
from flota.supervise.grace_period import SIGABRT, SIGINT, SIGTERM, ask_to_stop, kill, restart_grace_of
from flota.supervise.restart_policy import Decision, History, decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    E = TypeVar("E", bound=Event)

CANNOT_RUN = 127  # exit code of a shell if a program cannot be executed
FIRST_FAILURE_WAIT = 0.5  # seconds to wait for the first failure after secondary ones have been seen
SERVER_EXIT_WAIT = 1.0  # seconds for servers to exit on their own after the work is done, at most the grace period


class Phase:
    """The phases of a round. Strings: enum would cost 3 ms of CPU while the workers' interpreters start."""

    RUNNING = "running"
    LINGERING = "lingering"  # the work is done; for a second, workers that served may exit on their own
    PREEMPTING = "preempting"  # workers were asked to save and exit on their own
    STOPPING = "stopping"  # workers were sent a signal to stop
    SWEEPING = "sweeping"  # all workers have exited, leftover processes are killed
    ENDED = "ended"


PHASES = (Phase.RUNNING, Phase.LINGERING, Phase.PREEMPTING, Phase.STOPPING, Phase.SWEEPING, Phase.ENDED)


class Supervisor:
    """Supervises one node's workers from the first round, which is being started, to the verdict."""

    def __init__(
        self,
        workers: int,
        policy: RestartPolicy,
        grace: float,
        now: float,
        roles: tuple[Role, ...] = (),
        preempt_timeout: float | None = None,
        restart_grace: float | None = None,
        *,
        restarts_elsewhere: bool = False,
    ) -> None:
        """`roles`: by worker, if there are several. `preempt_timeout`: seconds for workers to exit on their own.
        `restart_grace`: the grace period before a restart. `restarts_elsewhere`: the coordinator restarts the workers
        after a failure."""
        self.workers = workers
        self.serving = {worker for worker, role in enumerate(roles) if role.serves}
        self.ignored = {worker for worker, role in enumerate(roles) if role.on_failure == IGNORE}
        self.final = {worker for worker, role in enumerate(roles) if role.on_failure == END}
        self.policy = policy
        self.grace = grace
        self.restart_grace = grace if restart_grace is None else restart_grace
        self.restarts_elsewhere = restarts_elsewhere
        self.preempt_timeout = grace if preempt_timeout is None else preempt_timeout
        self.stopped_gracefully = False  # asked to stop gracefully, and no worker has failed since
        self.round = 0
        self.attempt = policy.earlier
        self.stop_signal = 0
        self.recalled = False
        self.deadline: float | None = None
        self.before: tuple[FailedWorker, ...] = ()  # the failures before the last restart
        self.history = History()
        self.why = ""  # why there is no restart, although restarts are enabled and left
        self._begin(now)

    @classmethod
    def of_spec(
        cls,
        spec: JobSpec,
        policy: RestartPolicy,
        roles: tuple[Role, ...],
        now: float,
        *,
        restarts_elsewhere: bool = False,
    ) -> Supervisor:
        before_restart = restart_grace_of(spec.grace, spec.restart_grace)
        times = now, roles, spec.preempt_timeout, before_restart
        return cls(spec.workers, policy, spec.grace, *times, restarts_elsewhere=restarts_elsewhere)

    def step(self, event: Event, now: float) -> list[Action]:
        return TABLE[self.phase, type(event)](self, event, now)

    @property
    def only_serves(self) -> bool:
        """Whether all remaining workers of this node only serve others."""
        return self.phase == Phase.RUNNING and not self.failures and bool(self.alive) and self.alive <= self.serving

    @property
    def server_exit_wait(self) -> float:
        return min(SERVER_EXIT_WAIT, self.grace)

    def ignores_exit(self, worker: int) -> bool:
        """Whether its exit code is ignored: the job continues without it, or the work is done."""
        return self.released or worker in self.ignored

    def _begin(self, now: float) -> None:
        self.phase = Phase.RUNNING
        self.released = self.restart_requested = False
        self.alive = set(range(self.workers))
        self.started_at = dict.fromkeys(self.alive, now)
        self.succeeded_at: dict[int, float] = {}  # workers that have exited with 0 on their own
        self.failures: list[FailedWorker] = []

    def _worker_started(self, event: WorkerStarted, _now: float) -> list[Action]:
        self.started_at[event.worker] = event.at
        return []

    def _worker_exited(self, event: WorkerExited, now: float) -> list[Action]:
        self.alive.discard(event.worker)
        if event.code == 0 and not event.asked_to_stop:
            self.succeeded_at[event.worker] = event.at
        if event.code != 0 and not event.asked_to_stop and not self.ignores_exit(event.worker):
            cause = EXITED if event.code > 0 else SIGNALLED
            self._note_failure(event.worker, event.code, cause, event.at, is_secondary=event.is_secondary)
        return self._after_exit(now)

    def _after_exit(self, now: float) -> list[Action]:
        if not self.failures or self.phase != Phase.RUNNING:
            return self._sweep_if_all_exited()
        if not self.awaits_first_failure:
            return self._stop_workers(SIGTERM, now, self._grace_after_failure())
        # A worker that is stopped now could not fail in the way that shows the cause.
        self.deadline = now + FIRST_FAILURE_WAIT if self.deadline is None else self.deadline
        return []

    @property
    def awaits_first_failure(self) -> bool:
        """Whether all failed workers report the death of another worker, whose exit has not been seen yet."""
        secondary = all(failure.is_secondary for failure in self.failures)
        return self.phase == Phase.RUNNING and bool(self.failures and self.alive) and secondary

    def _hang_found(self, event: HangFound, now: float) -> list[Action]:
        self._blame_for_hang(event, event.at)
        return self._stop_workers(SIGABRT if event.blind else SIGTERM, now, self._grace_after_failure())

    def _hang_explained(self, event: HangFound, _now: float) -> list[Action]:
        found = [failure for failure in self.failures if is_hang(failure.code, failure.cause)]
        if found:
            self.failures = self.failures[len(found) :]
            self._blame_for_hang(event, found[0].at)
        return []

    def _blame_for_hang(self, event: HangFound, at: float) -> None:
        """Put the hang before all failures that have happened since. Worker -1: none stands out."""
        began = min(self.started_at.values(), default=at)
        self.failures[:0] = [
            FailedWorker(
                worker=worker,
                code=HANG,
                cause=LEFT_EARLY if worker in self.succeeded_at else HUNG,
                ran=self.succeeded_at.get(worker, at) - self.started_at.get(worker, began),
                at=at,
                said=event.words,
            )
            for worker in event.suspects or (-1,)
        ]

    def _start_failed(self, event: StartFailed, now: float) -> list[Action]:
        self.alive.discard(event.worker)
        if not self.ignores_exit(event.worker):
            self._note_failure(event.worker, CANNOT_RUN, NOT_STARTED, event.at)
        return self._after_exit(now)

    def _note_failure(self, worker: int, code: int, cause: str, at: float, *, is_secondary: bool = False) -> None:
        ran = max(0.0, at - self.started_at.get(worker, at))
        failed = FailedWorker(worker=worker, code=code, cause=cause, ran=ran, at=at, final=worker in self.final)
        self.failures.append(failed._replace(is_secondary=is_secondary))

    def _shepherd_lost(self, event: ShepherdLost, _now: float) -> list[Action]:
        self.stopped_gracefully = False
        if not self.stop_signal and not self.released:
            self.failures.append(FailedWorker(code=event.code or BUG, cause=SHEPHERD_LOST, at=event.at))
        self.alive.clear()
        return self._sweep_if_all_exited()

    def _round_recalled(self, event: RoundRecalled, now: float) -> list[Action]:
        self.recalled = True
        return self._stop_workers(event.signal, now, self.restart_grace if event.restarts else self.grace)

    def _restart_requested(self, _event: RestartRequested, now: float) -> list[Action]:
        self.restart_requested = True
        return self._stop_workers(SIGTERM, now, self.grace)  # no rank has failed: all of them can save

    def _work_is_done(self, _event: WorkIsDone, now: float) -> list[Action]:
        self.released = True
        self.phase = Phase.LINGERING
        self.deadline = now + self.server_exit_wait
        return self._sweep_if_all_exited()

    def _stop_now(self, _event: Event, now: float) -> list[Action]:
        """Stop waiting for workers to exit on their own, or for the first failure, and send SIGTERM."""
        self.stopped_gracefully = False
        has_failed = self.phase == Phase.RUNNING
        return self._stop_workers(SIGTERM, now, self._grace_after_failure() if has_failed else self.grace)

    def _grace_after_failure(self) -> float:
        """The grace period of the survivors: the shorter one if a restart follows, as far as the failure is known."""
        decision = decide(self.failures[0], self.history, self.attempt, self.policy)
        return self.restart_grace if decision.restarts or self.restarts_elsewhere else self.grace

    def _stop_requested(self, event: StopRequested, now: float) -> list[Action]:
        self.stop_signal = event.signal
        if event.gracefully:
            self.stopped_gracefully = True
            self.phase = Phase.PREEMPTING
            self.deadline = now + self.preempt_timeout
            return [AskToStopGracefully()]
        return self._stop_workers(event.signal, now)

    def _worker_exited_while_preempting(self, event: WorkerExited, now: float) -> list[Action]:
        """If a worker fails, it has not saved, so waiting for the others is useless."""
        self.alive.discard(event.worker)
        if event.code != 0:
            return self._stop_now(event, now)
        return self._stop_workers(SIGTERM, now) if self.alive <= self.serving else []

    def _stop_requested_while_preempting(self, event: StopRequested, now: float) -> list[Action]:
        """A second SIGTERM of a scheduler changes nothing; a user's Ctrl-C does."""
        return self._stop_now(event, now) if event.signal == SIGINT else []

    def _stop_requested_again(self, event: StopRequested, now: float) -> list[Action]:
        """The first request cancels a restart; a second Ctrl-C kills all workers at once."""
        again = self.stop_signal != 0 or self.released
        self.stop_signal = self.stop_signal or event.signal
        if again and event.signal == SIGINT:
            return self._kill_workers(event, now)
        if not again and self.deadline is not None:
            self.deadline += self.grace - self.stop_grace  # this is the final stop now
        return []

    def _stop_requested_while_sweeping(self, event: StopRequested, _now: float) -> list[Action]:
        """Too late for a job that has succeeded; in time to prevent the restart of a failed one."""
        if self.failures:
            self.stop_signal = self.stop_signal or event.signal
        return []

    def _stop_workers(self, signal: int, now: float, grace: float | None = None) -> list[Action]:
        self.phase = Phase.STOPPING
        self.stop_grace = self.grace if grace is None else grace
        stops, self.deadline = ask_to_stop(self.alive, signal, now, self.stop_grace)
        return stops or self._sweep_if_all_exited()

    def _kill_workers(self, _event: Event, _now: float) -> list[Action]:
        self.deadline = None
        return kill(self.alive)

    def _sweep_if_all_exited(self) -> list[Action]:
        if self.alive:
            return []
        self.phase = Phase.SWEEPING
        self.deadline = None
        return [SweepRound()]

    def _round_swept(self, event: RoundSwept, now: float) -> list[Action]:
        if event.failures is not None:
            self.failures = list(event.failures)
        if self.restart_requested and not self.stop_signal and not self.failures:
            return self._start_next_round(now)
        decision = self._decide(event.reached)
        if decision is None or not decision.restarts:
            self.why = decision.why if decision else ""
            self.phase = Phase.ENDED
            return [Finish(self._verdict())]
        failures = tuple(self.failures)
        self.before = failures
        self.attempt += 1
        return self._start_next_round(now, failures, decision.delay)

    def _start_next_round(self, now: float, after: tuple[FailedWorker, ...] = (), delay: float = 0.0) -> list[Action]:
        self.round += 1
        self._begin(now)
        return [StartRound(self.round, self.attempt, after, delay)]

    def _round_not_started(self, event: RoundNotStarted, _now: float) -> list[Action]:
        """End the job as if no restarts were left."""
        self.phase = Phase.ENDED
        self.stop_signal = event.signal
        self.failures = list(self.before)
        self.attempt -= 1
        return [Finish(self._verdict())]

    def _decide(self, reached: int) -> Decision | None:
        """Apply the restart policy; None if it does not apply."""
        if self.stop_signal or self.released or not self.failures:
            return None
        decision = decide(self.failures[0]._replace(step=reached), self.history, self.attempt, self.policy)
        self.history = decision.history
        return decision

    def _verdict(self) -> Verdict:
        failures = tuple(self.failures)
        if self.released:
            return Verdict(SUCCEEDED, 0, self.attempt)
        if self.stop_signal:
            code = TRY_AGAIN if self.stopped_gracefully else 128 + self.stop_signal
            return Verdict(STOPPED, code, self.attempt, failures, self.stop_signal)
        if failures:
            code = exit_code_of_all(failures)
            return Verdict(FAILED, code, self.attempt, failures, reason=self.why)
        if self.recalled:
            return Verdict(STOPPED, 0, self.attempt)
        return Verdict(SUCCEEDED, 0, self.attempt)

    def _nothing(self, _event: Event, _now: float) -> list[Action]:
        return []


def _row(
    event: type[E], *cells: Callable[[Supervisor, E, float], list[Action]]
) -> dict[tuple[str, type], Callable[[Supervisor, Any, float], list[Action]]]:
    return {(phase, event): cell for phase, cell in zip(PHASES, cells, strict=True)}


S, nothing = Supervisor, Supervisor._nothing
# Every cell is decided: `nothing` for events that cannot happen in a phase, or do not matter there.
# event: running, lingering, preempting, stopping, sweeping, ended
TABLE = {
    **_row(WorkerStarted, S._worker_started, nothing, S._worker_started, S._worker_started, nothing, nothing),
    **_row(StartFailed, S._start_failed, S._start_failed, S._start_failed, S._start_failed, nothing, nothing),
    **_row(
        WorkerExited,
        *(S._worker_exited, S._worker_exited, S._worker_exited_while_preempting, S._worker_exited, nothing, nothing),
    ),
    **_row(HangFound, S._hang_found, nothing, nothing, S._hang_explained, S._hang_explained, nothing),
    **_row(RoundSwept, nothing, nothing, nothing, nothing, S._round_swept, nothing),
    **_row(RoundNotStarted, S._round_not_started, nothing, nothing, nothing, nothing, nothing),
    **_row(ShepherdLost, S._shepherd_lost, S._shepherd_lost, S._shepherd_lost, S._shepherd_lost, nothing, nothing),
    **_row(RoundRecalled, S._round_recalled, S._stop_now, S._stop_now, nothing, nothing, nothing),
    **_row(WorkIsDone, S._work_is_done, nothing, nothing, nothing, nothing, nothing),
    **_row(
        StopRequested,
        *(S._stop_requested, S._stop_now, S._stop_requested_while_preempting),
        *(S._stop_requested_again, S._stop_requested_while_sweeping, nothing),
    ),
    **_row(RestartRequested, S._restart_requested, nothing, nothing, nothing, nothing, nothing),
    **_row(DeadlinePassed, S._stop_now, S._stop_now, S._stop_now, S._kill_workers, nothing, nothing),
}
