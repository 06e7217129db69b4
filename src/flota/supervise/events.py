"""The events of a node's workers. Pure."""

from __future__ import annotations

from flota.job.report import NO_STEP, FailedWorker
from flota.values import NamedTuple


class WorkerStarted(NamedTuple):
    worker: int
    pid: int
    at: float


class StartFailed(NamedTuple):
    """The program could not be executed."""

    worker: int
    errno: int
    at: float


class WorkerExited(NamedTuple):
    """`code`: the exit code, or the negative signal number. `asked_to_stop`: flota had sent it a signal.
    `is_secondary`: its output says that another worker has died.
    """

    worker: int
    code: int
    asked_to_stop: bool
    at: float
    is_secondary: bool = False


class HangFound(NamedTuple):
    """The job makes no progress because of these workers; empty if none stands out. `words`: the description for
    people.

    `blind`: stacks could not be read, so the workers are aborted, which may write their stacks to the logs. A second
    event then names the suspects.
    """

    suspects: tuple[int, ...]
    words: tuple[str, ...]
    at: float
    blind: bool = False


class RoundSwept(NamedTuple):
    """All processes of the round are gone, leftovers included. `failures`: the failures with their causes, the culprit
    first; None: nothing new is known. `reached`: the furthest step that any worker has reported.
    """

    failures: tuple[FailedWorker, ...] | None = None
    reached: int = NO_STEP


class RoundNotStarted(NamedTuple):
    """A restart was not possible, or a signal asked the job to stop during the delay before it."""

    signal: int = 0


class ShepherdLost(NamedTuple):
    """The shepherd has died; the processes of the round are now children of the node."""

    code: int
    at: float


class RoundRecalled(NamedTuple):
    """Another node has failed, left or joined, so the round ends on all nodes. `signal`: sent to the workers.
    `restarts`: they are restarted, as far as is known."""

    signal: int = 15
    restarts: bool = False


class WorkIsDone(NamedTuple):
    """All work has succeeded, on all nodes: workers that only serve are no longer needed."""


class StopRequested(NamedTuple):
    """A signal asks the job to stop. `gracefully`: all workers with work can save and exit on their own."""

    signal: int
    gracefully: bool = False


class RestartRequested(NamedTuple):
    """A user asks for a new round, on one machine."""


class DeadlinePassed(NamedTuple):
    """The supervisor's deadline has passed."""


Event = (
    WorkerStarted
    | StartFailed
    | WorkerExited
    | HangFound
    | RoundSwept
    | RoundNotStarted
    | ShepherdLost
    | RoundRecalled
    | WorkIsDone
    | StopRequested
    | RestartRequested
    | DeadlinePassed
)
