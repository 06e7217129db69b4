"""What can happen to a node's workers. Pure."""

from __future__ import annotations

from flota.job.report import NO_STEP, FailedWorker
from flota.values import NamedTuple


class WorkerStarted(NamedTuple):
    worker: int
    pid: int
    at: float


class StartFailed(NamedTuple):
    """The program could not be run at all."""

    worker: int
    errno: int
    at: float


class WorkerExited(NamedTuple):
    """`code` is the exit code, or minus the signal's number; `asked_to_stop`: flota had sent it a signal before;
    `is_secondary`: it says that another has died.
    """

    worker: int
    code: int
    asked_to_stop: bool
    at: float
    is_secondary: bool = False


class HangFound(NamedTuple):
    """The job makes no progress, because of these workers, or of none in particular. `words`: what people are told.

    `blind`: their stacks could not be read, unless they leave them behind when they are aborted. Then it is found
    again, and what they have left behind tells more.
    """

    suspects: tuple[int, ...]
    words: tuple[str, ...]
    at: float
    blind: bool = False


class RoundSwept(NamedTuple):
    """Every process of the round is gone, strays included. `failures`: what is known of them by now, with their causes,
    the one to blame first; None: no more than before. `reached`: the furthest step that any worker has reported.
    """

    failures: tuple[FailedWorker, ...] | None = None
    reached: int = NO_STEP


class RoundNotStarted(NamedTuple):
    """A restart was wanted and could not take place, or was waited for until a signal asked the job to end."""

    signal: int = 0


class ShepherdLost(NamedTuple):
    """The shepherd died; the round's processes are the node's now."""

    code: int
    at: float


class RoundRecalled(NamedTuple):
    """Of many nodes, one has failed, left or come: the round ends on all of them. `signal`: that tells workers so."""

    signal: int = 15


class WorkIsDone(NamedTuple):
    """Whatever the job waits for has ended well, on all of its nodes: who only serves is not needed any more."""


class StopRequested(NamedTuple):
    """A signal that asks the job to end. `gracefully`: all workers with work can save and exit on their own."""

    signal: int
    gracefully: bool = False


class DeadlinePassed(NamedTuple):
    """The supervisor's own deadline."""


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
    | DeadlinePassed
)
