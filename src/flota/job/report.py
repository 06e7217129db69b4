"""How a job ended: the verdict, the failures behind it, and the exit code that follows."""

from __future__ import annotations

from flota.values import NamedTuple

SUCCEEDED, FAILED, STOPPED = "succeeded", "failed", "stopped"
INCOMPLETE = "incomplete"  # the nodes that the job needs were not there
CAUSES = EXITED, SIGNALLED, NOT_STARTED, SHEPHERD_LOST = "exited", "signalled", "not-started", "shepherd-lost"


class Failure(NamedTuple):
    """A worker that failed by itself. `code` is its exit code, or minus the signal's number."""

    worker: int
    code: int
    cause: str
    ran: float
    at: float


class Verdict(NamedTuple):
    """How a job ended. `failures` are those of the last round, in order of time."""

    kind: str
    exit_code: int
    attempt: int
    failures: tuple[Failure, ...] = ()
    signal: int = 0
    reason: str = ""  # where no worker failed: what ended the job


def exit_code_of(code: int) -> int:
    """A process's own code, or 128 + N for a signal."""
    return code if code >= 0 else 128 - code


class FailedWorker(NamedTuple):
    """A failure with everything a person needs: where, how, and what it said last. Rank -1 is the shepherd."""

    rank: int
    local_rank: int
    node: str
    pid: int
    code: int
    cause: str
    ending: str
    ran: float
    log: str
    said: tuple[str, ...]


class Report(NamedTuple):
    """The end of a job, the same for the screen, report.json and the exit code."""

    job_id: str
    verdict: Verdict
    world_size: int
    rounds: int
    seconds: float
    log_dir: str
    failed: tuple[FailedWorker, ...] = ()
    stopped: tuple[int, ...] = ()

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code


def report_as_dict(report: Report) -> dict[str, object]:
    return {
        "job_id": report.job_id,
        "verdict": report.verdict.kind,
        "exit_code": report.verdict.exit_code,
        "signal": report.verdict.signal or None,
        "reason": report.verdict.reason or None,
        "attempt": report.verdict.attempt,
        "rounds": report.rounds,
        "world_size": report.world_size,
        "seconds": round(report.seconds, 3),
        "log_dir": report.log_dir,
        "failures": [_failure_as_dict(failed) for failed in report.failed],
        "stopped_by_flota": list(report.stopped),
    }


def _failure_as_dict(failed: FailedWorker) -> dict[str, object]:
    return {
        "rank": failed.rank if failed.rank >= 0 else None,
        "local_rank": failed.local_rank if failed.rank >= 0 else None,
        "node": failed.node,
        "pid": failed.pid,
        "exit_code": failed.code if failed.code >= 0 else None,
        "signal": -failed.code if failed.code < 0 else None,
        "cause": failed.cause,
        "ending": failed.ending,
        "ran_seconds": round(failed.ran, 3),
        "log": failed.log,
        "said": list(failed.said),
    }
