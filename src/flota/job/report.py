"""How a job ended: the verdict, the failures behind it, and the exit code that follows."""

from __future__ import annotations

from flota.job.roles import TRAINER, label
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
    final: bool = False  # no policy restarts it


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
    """A failure with everything a person needs: where, how, and what it said last. Rank -1 is the shepherd.

    `final`: its role's failures end the job, whatever the policy says of others.
    """

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
    role: str = TRAINER
    final: bool = False


class Report(NamedTuple):
    """The end of a job, the same for the screen, report.json and the exit code. `sizes`: workers by role's name."""

    job_id: str
    verdict: Verdict
    sizes: dict[str, int]
    rounds: int
    seconds: float
    log_dir: str
    failed: tuple[FailedWorker, ...] = ()
    stopped: tuple[tuple[str, int], ...] = ()  # role and rank
    ignored: tuple[tuple[str, int], ...] = ()  # failed, and their role does not matter

    @property
    def workers(self) -> int:
        return sum(self.sizes.values())

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
        "world_size": report.workers,
        **({"roles": report.sizes} if set(report.sizes) - {TRAINER} else {}),
        "seconds": round(report.seconds, 3),
        "log_dir": report.log_dir,
        "failures": [_failure_as_dict(failed) for failed in report.failed],
        **({"ignored": [label(role, rank) for role, rank in report.ignored]} if report.ignored else {}),
        "stopped_by_flota": [rank if role == TRAINER else label(role, rank) for role, rank in report.stopped],
    }


def _failure_as_dict(failed: FailedWorker) -> dict[str, object]:
    return {
        "role": failed.role,
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
