"""How a job ended: the verdict, the failures behind it, and the exit code that follows. Pure."""

from __future__ import annotations

from flota.job.roles import TRAINER, label
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

SUCCEEDED, FAILED, STOPPED = "succeeded", "failed", "stopped"
INCOMPLETE = "incomplete"  # the nodes that the job needs were not there
# What the shepherd can tell of an end; job/causes.py finds more in what the worker said.
EXITED, SIGNALLED, NOT_STARTED, SHEPHERD_LOST = "exited", "signalled", "not-started", "shepherd-lost"
# What is known of a worker for which the others wait: it stands, or has ended with 0.
HUNG, LEFT_EARLY = "hung", "left-early"
HANG_IN_WORDS = "hang"  # for want of an exit code
NO_STEP = -1


class Failure(NamedTuple):
    """A worker that failed by itself. `code` is its exit code, or minus the signal's number."""

    worker: int
    code: int
    cause: str
    ran: float
    at: float
    final: bool = False  # no policy restarts it
    exception: str = ""  # the type that it raised, if any
    step: int = NO_STEP  # the furthest that any worker of the round has told
    asked_to_stop: bool = False  # before it ended: its end says little, what it had said before may say all
    words: tuple[str, ...] = ()  # of a hang: who stands where


class Verdict(NamedTuple):
    """How a job ended. `failures` are those of the last round, in order of time."""

    kind: str
    exit_code: int
    attempt: int
    failures: tuple[Failure, ...] = ()
    signal: int = 0
    reason: str = ""  # where no worker failed: what ended the job; else why it was not restarted


def exit_code_of(code: int) -> int:
    """A process's own code, or 128 + N for a signal."""
    return code if code >= 0 else 128 - code


def exit_code_of_all(ends: Iterable[tuple[int, bool]]) -> int:
    """The first code that says something, of codes in order of blame, each with whether its worker had been asked to
    stop: the culprit may have ended with 0 too early, or by the signal that we sent it.
    """
    return next(
        (exit_code_of(code) for code, asked_to_stop in ends if code != 0 and not (asked_to_stop and code < 0)), 1
    )


class FailedWorker(NamedTuple):
    """A failure with everything a person needs: where, how, and what it said last. Rank -1 is the shepherd.

    `final`: its role's failures end the job, whatever the policy says of others. `is_secondary`: because another had
    died.
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
    said: tuple[str, ...] = ()
    role: str = TRAINER
    final: bool = False
    attempt: int = 0
    step: int = NO_STEP
    at: float = 0.0  # seconds since 1970, by its node's clock or, in a report of many nodes, by the coordinator's
    asked_to_stop: bool = False
    is_secondary: bool = False
    exception: str = ""
    evidence: str = ""
    hint: str = ""


class JobEnding(NamedTuple):
    """How a job of several nodes ended, the same on every node. `failures` are in order of blame."""

    kind: str
    code: int = 0
    signal: int = 0
    reason: str = ""
    failures: tuple[FailedWorker, ...] = ()
    ended: tuple[tuple[str, int], ...] = ()  # workers that had done their work when others failed


class Report(NamedTuple):
    """The end of a job, the same for the screen, report.json and the exit code. `sizes`: workers by role's name.

    `failed`: the first is to blame, then others that failed by themselves. `secondary`: failed because of them.
    """

    job_id: str
    verdict: Verdict
    sizes: dict[str, int]
    rounds: int
    seconds: float
    log_dir: str
    failed: tuple[FailedWorker, ...] = ()
    stopped: tuple[tuple[str, int], ...] = ()  # role and rank
    ignored: tuple[tuple[str, int], ...] = ()  # failed, and their role does not matter
    secondary: tuple[FailedWorker, ...] = ()
    several: bool = False  # nodes: then hosts are named
    ended: tuple[tuple[str, int], ...] = ()  # with 0, before others failed

    @property
    def workers(self) -> int:
        return sum(self.sizes.values())

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code


def with_failures(report: Report, found: tuple[FailedWorker, ...], ended: tuple[tuple[str, int], ...] = ()) -> Report:
    """The report of a job that failed, or of one that did not: what all nodes found, in order of blame. Whoever has
    neither failed nor `ended` well was stopped."""
    if not found:
        return report
    fallen = {(one.role, one.rank) for one in found}
    others = {*fallen, *ended, *report.ignored}
    everybody = ((role, rank) for role, size in report.sizes.items() for rank in range(size))
    return report._replace(
        failed=tuple(one for number, one in enumerate(found) if number == 0 or not one.is_secondary),
        secondary=tuple(one for one in found[1:] if one.is_secondary),
        stopped=tuple(worker for worker in everybody if worker not in others),
        ended=tuple(worker for worker in ended if worker not in fallen),
    )


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
        "several_nodes": report.several,
        "failures": [_failure_as_dict(failed) for failed in report.failed],
        "suffered": [_failure_as_dict(failed) for failed in report.secondary],
        **({"ignored": [label(role, rank) for role, rank in report.ignored]} if report.ignored else {}),
        "stopped_by_flota": _as_list(report.stopped),
        **({"ended_before": _as_list(report.ended)} if report.ended else {}),
    }


def _as_list(workers: Iterable[tuple[str, int]]) -> list[int | str]:
    return [rank if role == TRAINER else label(role, rank) for role, rank in workers]


def _failure_as_dict(failed: FailedWorker) -> dict[str, object]:
    return {
        "role": failed.role,
        "rank": failed.rank if failed.rank >= 0 else None,
        "local_rank": failed.local_rank if failed.rank >= 0 else None,
        "node": failed.node,
        "pid": failed.pid,
        "attempt": failed.attempt,
        "exit_code": failed.code if failed.code >= 0 else None,
        "signal": -failed.code if failed.code < 0 else None,
        "cause": failed.cause,
        "exception": failed.exception or None,
        "ending": failed.ending,
        "told_to_stop": failed.asked_to_stop,
        "time": round(failed.at, 6),
        "ran_seconds": round(failed.ran, 3),
        "last_step": failed.step if failed.step != NO_STEP else None,
        "log": failed.log,
        "said": list(failed.said),
        "evidence": failed.evidence or None,
        "hint": failed.hint or None,
    }


def report_from_dict(told: Mapping[str, Any]) -> Report:
    """What `report_as_dict` has made of a report; of another version's what is there."""
    verdict = Verdict(
        str(told.get("verdict", FAILED)),
        int(told.get("exit_code") or 0),
        int(told.get("attempt") or 0),
        signal=int(told.get("signal") or 0),
        reason=str(told.get("reason") or ""),
    )
    return Report(
        job_id=str(told.get("job_id", "")),
        verdict=verdict,
        sizes=dict(told.get("roles") or {TRAINER: int(told.get("world_size") or 0)}),
        rounds=int(told.get("rounds") or 0),
        seconds=float(told.get("seconds") or 0.0),
        log_dir=str(told.get("log_dir", "")),
        failed=tuple(_failure_from_dict(one) for one in told.get("failures") or ()),
        stopped=tuple(map(_named, told.get("stopped_by_flota") or ())),
        ignored=tuple(map(_named, told.get("ignored") or ())),
        secondary=tuple(_failure_from_dict(one)._replace(is_secondary=True) for one in told.get("suffered") or ()),
        several=bool(told.get("several_nodes")),
        ended=tuple(map(_named, told.get("ended_before") or ())),
    )


def _named(worker: int | str) -> tuple[str, int]:
    if isinstance(worker, int):
        return TRAINER, worker
    role, _, rank = worker.rpartition(" ")
    return TRAINER if role == "rank" else role, int(rank)


def _failure_from_dict(told: Mapping[str, Any]) -> FailedWorker:
    signal, code, rank, local_rank, step = (
        told.get(name) for name in ("signal", "exit_code", "rank", "local_rank", "last_step")
    )
    return FailedWorker(
        rank=-1 if rank is None else int(rank),
        local_rank=-1 if local_rank is None else int(local_rank),
        node=str(told.get("node", "")),
        pid=int(told.get("pid") or 0),
        code=-int(signal) if signal else int(code or 0),
        cause=str(told.get("cause", EXITED)),
        ending=str(told.get("ending", "")),
        ran=float(told.get("ran_seconds") or 0.0),
        log=str(told.get("log", "")),
        said=tuple(map(str, told.get("said") or ())),
        role=str(told.get("role", TRAINER)),
        attempt=int(told.get("attempt") or 0),
        step=NO_STEP if step is None else int(step),
        at=float(told.get("time") or 0.0),
        asked_to_stop=bool(told.get("told_to_stop")),
        exception=str(told.get("exception") or ""),
        evidence=str(told.get("evidence") or ""),
        hint=str(told.get("hint") or ""),
    )
