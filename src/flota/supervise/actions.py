"""The actions that a supervisor can request. Pure."""

from __future__ import annotations

from flota.job.report import FailedWorker, Verdict
from flota.values import NamedTuple


class StopWorker(NamedTuple):
    """Send the signal to the worker process only, so that it can stop its own children."""

    worker: int
    signal: int


class AskToStopGracefully(NamedTuple):
    """Ask all workers to save and exit on their own, all at the same step."""


class KillWorker(NamedTuple):
    """Send SIGKILL to the worker and its process group."""

    worker: int


class SweepRound(NamedTuple):
    """Kill all processes that the round's workers have left behind."""


class StartRound(NamedTuple):
    """Restart all workers because of the failures `after`, `delay` seconds from now. Without failures, a user asked."""

    round: int
    attempt: int
    after: tuple[FailedWorker, ...]
    delay: float = 0.0


class Finish(NamedTuple):
    verdict: Verdict


Action = StopWorker | AskToStopGracefully | KillWorker | SweepRound | StartRound | Finish
