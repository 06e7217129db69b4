"""What a supervisor can want done. Pure."""

from __future__ import annotations

from flota.job.report import FailedWorker, Verdict
from flota.values import NamedTuple


class StopWorker(NamedTuple):
    """Send the signal to the worker process only, so that it can end its own children."""

    worker: int
    signal: int


class AskToStopGracefully(NamedTuple):
    """Ask all workers to save what they have and end by themselves, all at the same step."""


class KillWorker(NamedTuple):
    """SIGKILL to the worker and its group."""

    worker: int


class SweepRound(NamedTuple):
    """End whatever the round's workers have left behind."""


class StartRound(NamedTuple):
    """Restart all workers, after these failures, and after so many seconds."""

    round: int
    attempt: int
    after: tuple[FailedWorker, ...]
    delay: float = 0.0


class Finish(NamedTuple):
    verdict: Verdict


Action = StopWorker | AskToStopGracefully | KillWorker | SweepRound | StartRound | Finish
