"""What to do about this node's workers. Decides; never acts, waits or reads the clock. Pure."""

from __future__ import annotations

from flota.errors import BUG, HANG, TRY_AGAIN
from flota.job.causes import EXITED, HUNG, LEFT_EARLY, NOT_STARTED, SHEPHERD_LOST, SIGNALLED, is_hang
from flota.job.report import FAILED, STOPPED, SUCCEEDED, Failure, Verdict, exit_code_of_all
from flota.job.roles import END, IGNORE, Role
from flota.job.spec import RestartPolicy
from flota.supervise.actions import Action, AskToStopGracefully, Finish, KillWorker, StartRound, StopWorker, SweepRound
from flota.supervise.events import (
    DeadlinePassed,
    Event,
    HangExplained,
    HangFound,
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
from flota.supervise.phases import Phase
from flota.supervise.reactions import REACTIONS
from flota.supervise.restart_policy import Decision, History, decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Reaction = Callable[[Event, float], list[Action]]

SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM = 1, 2, 3, 6, 15
CANNOT_RUN = 127  # a shell's code for a program that could not be run
A_MOMENT = 0.5  # seconds for a worker to end whose death others have seen before us
TERMINAL_SIGNALS = (SIGHUP, SIGINT, SIGQUIT, SIGTERM)


class Supervisor:
    """One node's workers, from the first round (which the node has begun to start) to the verdict."""

    def __init__(
        self,
        workers: int,
        policy: RestartPolicy,
        grace: float,
        now: float,
        roles: tuple[Role, ...] = (),
        patience: float | None = None,
    ) -> None:
        """`roles`: each worker's own, where they differ; `patience`: how long workers have that end by themselves."""
        self.workers = workers
        self.serving = {worker for worker, role in enumerate(roles) if role.serves}
        self.ignored = {worker for worker, role in enumerate(roles) if role.on_failure == IGNORE}
        self.final = {worker for worker, role in enumerate(roles) if role.on_failure == END}
        self.policy = policy
        self.grace = grace
        self.patience = grace if patience is None else patience
        self.yielded = False  # asked, and nobody has failed to
        self.round = 0
        self.attempt = 0
        self.stop_signal = 0
        self.recalled = False
        self.deadline: float | None = None
        self.before: tuple[Failure, ...] = ()  # what the last restart followed
        self.history = History()
        self.why = ""  # restarts are on and left, and there is none
        self._begin(now)

    def step(self, event: Event, now: float) -> list[Action]:
        reaction: Reaction = getattr(self, f"_{REACTIONS[self.phase, type(event)]}")
        return reaction(event, now)

    @property
    def only_serves(self) -> bool:
        """Whether all that is left of this node's workers is there for others."""
        return self.phase == Phase.RUNNING and not self.failures and bool(self.alive) and self.alive <= self.serving

    def ignores_exit(self, worker: int) -> bool:
        """Whether it may end as it likes: the job goes on without it, or its work is done."""
        return self.released or worker in self.ignored

    def _begin(self, now: float) -> None:
        self.phase = Phase.RUNNING
        self.released = False
        self.alive = set(range(self.workers))
        self.started_at = dict.fromkeys(self.alive, now)
        self.left_at: dict[int, float] = {}  # with success, by themselves
        self.failures: list[Failure] = []
        self.victims: set[int] = set()

    def _worker_started(self, event: WorkerStarted, _now: float) -> list[Action]:
        self.started_at[event.worker] = event.at
        return []

    def _worker_exited(self, event: WorkerExited, now: float) -> list[Action]:
        self.alive.discard(event.worker)
        if event.code == 0 and not event.told:
            self.left_at[event.worker] = event.at
        if event.code != 0 and not event.told and not self.ignores_exit(event.worker):
            cause = EXITED if event.code > 0 else SIGNALLED
            self._note_failure(event.worker, event.code, cause, event.at)
            if event.suffered:
                self.victims.add(event.worker)
        if self.failures and self.phase == Phase.RUNNING:
            return self._doubt(now) if self.doubts else self._stop_workers(SIGTERM, now)
        return self._sweep_when_alone()

    @property
    def doubts(self) -> bool:
        """Whether all who failed say that another has died, of whom we do not know yet."""
        victims = all(failure.worker in self.victims for failure in self.failures)
        return self.phase == Phase.RUNNING and bool(self.failures and self.alive) and victims

    def _doubt(self, now: float) -> list[Action]:
        """Whoever was stopped now could not end any more in the way that tells why."""
        if self.deadline is None:
            self.deadline = now + A_MOMENT
        return []

    def _hang_found(self, event: HangFound, now: float) -> list[Action]:
        self._blame_for_hang(event.suspects, event.words, event.at)
        return self._stop_workers(SIGABRT if event.blind else SIGTERM, now)

    def _hang_explained(self, event: HangExplained, _now: float) -> list[Action]:
        found = [failure for failure in self.failures if is_hang(failure.code, failure.cause)]
        if found:
            self.failures = self.failures[len(found) :]
            self._blame_for_hang(event.suspects, event.words, found[0].at)
        return []

    def _blame_for_hang(self, suspects: tuple[int, ...], words: tuple[str, ...], at: float) -> None:
        """Found before whatever else has happened since; -1: nobody stands out."""
        began = min(self.started_at.values(), default=at)
        self.failures[:0] = [
            Failure(
                worker,
                HANG,
                LEFT_EARLY if worker in self.left_at else HUNG,
                self.left_at.get(worker, at) - self.started_at.get(worker, began),
                at,
                words=words,
            )
            for worker in suspects or (-1,)
        ]

    def _start_failed(self, event: StartFailed, now: float) -> list[Action]:
        self.alive.discard(event.worker)
        if not self.ignores_exit(event.worker):
            self._note_failure(event.worker, CANNOT_RUN, NOT_STARTED, event.at)
        if self.failures and self.phase == Phase.RUNNING:
            return self._stop_workers(SIGTERM, now)
        return self._sweep_when_alone()

    def _note_failure(self, worker: int, code: int, cause: str, at: float) -> None:
        ran = max(0.0, at - self.started_at.get(worker, at))
        self.failures.append(Failure(worker, code, cause, ran, at, final=worker in self.final))

    def _shepherd_lost(self, event: ShepherdLost, _now: float) -> list[Action]:
        self.yielded = False
        if not self.stop_signal and not self.released:
            self.failures.append(Failure(-1, event.code or BUG, SHEPHERD_LOST, 0.0, event.at))
        self.alive.clear()
        return self._sweep_when_alone()

    def _round_recalled(self, event: RoundRecalled, now: float) -> list[Action]:
        self.recalled = True
        return self._stop_workers(event.signal, now)

    def _work_is_done(self, _event: WorkIsDone, now: float) -> list[Action]:
        self.released = True
        self.phase = Phase.LINGERING
        self.deadline = now + self.grace
        return self._sweep_when_alone()

    def _hurry_up(self, _event: Event, now: float) -> list[Action]:
        """Whoever may end by itself had its time, or somebody does not want to wait."""
        self.yielded = False
        return self._stop_workers(SIGTERM, now)

    def _stop_requested(self, event: StopRequested, now: float) -> list[Action]:
        self.stop_signal = event.signal
        if event.gently:
            self.yielded = True
            self.phase = Phase.YIELDING
            self.deadline = now + self.patience
            return [AskToStopGracefully()]
        return self._stop_workers(event.signal, now)

    def _worker_yielded(self, event: WorkerExited, now: float) -> list[Action]:
        """One that fails has not saved anything, so the others need not wait either."""
        self.alive.discard(event.worker)
        if event.code != 0:
            return self._hurry_up(event, now)
        return self._stop_workers(SIGTERM, now) if self.alive <= self.serving else []

    def _stop_requested_while_yielding(self, event: StopRequested, now: float) -> list[Action]:
        """A scheduler's second SIGTERM changes nothing; a person's Ctrl-C does."""
        return self._hurry_up(event, now) if event.signal == SIGINT else []

    def _stop_requested_again(self, event: StopRequested, _now: float) -> list[Action]:
        """The first request ends a restart that was under way; a second Ctrl-C does not wait for anybody."""
        again = self.stop_signal != 0 or self.released
        self.stop_signal = self.stop_signal or event.signal
        if again and event.signal == SIGINT:
            return self._kill_workers()
        return []

    def _stop_requested_while_sweeping(self, event: StopRequested, _now: float) -> list[Action]:
        """Too late for a job that has ended well; in time to keep a failed one from restarting."""
        if self.failures:
            self.stop_signal = self.stop_signal or event.signal
        return []

    def _stop_workers(self, signal: int, now: float) -> list[Action]:
        self.phase = Phase.STOPPING
        self.deadline = now + self.grace
        gentle = SIGTERM if signal in TERMINAL_SIGNALS else signal
        stops: list[Action] = [StopWorker(worker, gentle) for worker in sorted(self.alive)]
        return stops or self._sweep_when_alone()

    def _deadline_passed(self, _event: DeadlinePassed, _now: float) -> list[Action]:
        return self._kill_workers()

    def _kill_workers(self) -> list[Action]:
        self.deadline = None
        return [KillWorker(worker) for worker in sorted(self.alive)]

    def _sweep_when_alone(self) -> list[Action]:
        if self.alive:
            return []
        self.phase = Phase.SWEEPING
        self.deadline = None
        return [SweepRound()]

    def _round_swept(self, event: RoundSwept, now: float) -> list[Action]:
        if event.failures is not None:
            self.failures = list(event.failures)
        decision = self._decide()
        if decision is None or not decision.restarts:
            self.why = decision.why if decision else ""
            self.phase = Phase.ENDED
            return [Finish(self._verdict())]
        failures = tuple(self.failures)
        self.before = failures
        self.round += 1
        self.attempt += 1
        self._begin(now)
        return [StartRound(self.round, self.attempt, failures, decision.delay)]

    def _round_not_started(self, event: RoundNotStarted, _now: float) -> list[Action]:
        """The job ends as if there had been no restarts left."""
        self.phase = Phase.ENDED
        self.stop_signal = event.signal
        self.failures = list(self.before)
        self.attempt -= 1
        return [Finish(self._verdict())]

    def _decide(self) -> Decision | None:
        """What follows the failures; None where it is not the policy's to say."""
        if self.stop_signal or self.released or not self.failures:
            return None
        decision = decide(self.failures[0], self.history, self.attempt, self.policy)
        self.history = decision.history
        return decision

    def _verdict(self) -> Verdict:
        failures = tuple(self.failures)
        if self.released:
            return Verdict(SUCCEEDED, 0, self.attempt)
        if self.stop_signal:
            code = TRY_AGAIN if self.yielded else 128 + self.stop_signal
            return Verdict(STOPPED, code, self.attempt, failures, self.stop_signal)
        if failures:
            code = exit_code_of_all((failure.code, failure.told) for failure in failures)
            return Verdict(FAILED, code, self.attempt, failures, reason=self.why)
        if self.recalled:
            return Verdict(STOPPED, 0, self.attempt)
        return Verdict(SUCCEEDED, 0, self.attempt)

    def _nothing(self, _event: Event, _now: float) -> list[Action]:
        return []
