"""How a job ended: the verdict, the failures behind it, and the exit code that follows. Pure."""

from __future__ import annotations

from flota.job.causes import EXITED
from flota.job.roles import TRAINER, label
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypeVar

    Value = TypeVar("Value", bound=NamedTuple)

SUCCEEDED, FAILED, STOPPED = "succeeded", "failed", "stopped"
INCOMPLETE = "incomplete"  # the nodes that the job needs were not there
HANG_IN_WORDS = "hang"  # for want of an exit code
NO_STEP = -1
MOST_RESTARTS = 50  # that a report lists


class FailedWorker(NamedTuple):
    """A failure, from the supervisor to the screen. The supervisor makes it with what it knows: `worker`, `code`,
    `cause`, `ran`, `at`, `final`. run/evidence.py adds what a person needs: where, how, and what it said last. Rank -1
    is the shepherd, or no rank in particular.

    `final`: its role's failures end the job, whatever the policy says of others. `is_secondary`: it failed because
    another had died.
    """

    rank: int = -1
    local_rank: int = -1
    node: str = ""
    pid: int = 0
    code: int = 0  # its exit code, or minus the signal's number
    cause: str = EXITED
    ending: str = ""
    ran: float = 0.0
    log: str = ""
    said: tuple[str, ...] = ()  # of a hang: what each rank is waiting on
    role: str = TRAINER
    final: bool = False
    attempt: int = 0
    step: int = NO_STEP
    # Seconds since 1970, by its node's clock or, in a report of many nodes, by the coordinator's. In the supervisor: by
    # the clock that never jumps.
    at: float = 0.0
    asked_to_stop: bool = False  # before it ended: its end says little, what it had said before may say all
    is_secondary: bool = False
    exception: str = ""  # the type that it raised, if any
    evidence: str = ""
    hint: str = ""
    worker: int = -1  # its number on its node


class Verdict(NamedTuple):
    """How a job ended. `failures` are those of the last round, in order of blame."""

    kind: str
    exit_code: int
    attempt: int
    failures: tuple[FailedWorker, ...] = ()
    signal: int = 0
    reason: str = ""  # where no worker failed: what ended the job; else why it was not restarted


def exit_code_of(code: int) -> int:
    """A process's own code, or 128 + N for a signal."""
    return code if code >= 0 else 128 - code


def exit_code_of_all(failures: Iterable[FailedWorker]) -> int:
    """The first code that says something, of failures in order of blame: the culprit may have ended with 0 too early,
    or by the signal that we sent it.
    """
    telling = (one.code for one in failures if one.code != 0 and not (one.asked_to_stop and one.code < 0))
    return next(map(exit_code_of, telling), 1)


class JobEnding(NamedTuple):
    """How a job of several nodes ended, the same on every node. `failures` are in order of blame."""

    kind: str
    code: int = 0
    signal: int = 0
    reason: str = ""
    failures: tuple[FailedWorker, ...] = ()
    ended: tuple[tuple[str, int], ...] = ()  # workers that had done their work when others failed


class PastRestart(NamedTuple):
    """Why a round ended and the next one began: a worker failed, or nodes came or went."""

    round: int  # the one that ended
    at: float  # seconds since 1970
    reason: str  # for example `rank 2 FileNotFoundError` or `gpu03 was lost`
    counted: bool = True  # by --max_restart
    lost: tuple[str, ...] = ()  # hosts


def failure_in_brief(failed: FailedWorker, *, name_host: bool = False) -> str:
    """For example `rank 2 FileNotFoundError`."""
    who = label(failed.role, failed.rank) if failed.rank >= 0 else "shepherd"
    where = f" on {failed.node}" if name_host and failed.node else ""
    return f"{who}{where} {failed.exception.rpartition('.')[2] or failed.ending}"


def exception_message(failed: FailedWorker) -> list[str]:
    """The line of its traceback that names the exception, if there is one."""
    name = failed.exception.rpartition(".")[2]
    return [line.strip() for line in failed.said if name and name in line.partition(":")[0]][-1:]


class Report(NamedTuple):
    """The end of a job, the same for the screen, report.json and the exit code. `sizes`: workers by role's name.

    `failed`: the first is to blame, then others that failed on their own. `secondary`: failed as a consequence.
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
    began: float = 0.0  # seconds since 1970
    restarts: tuple[PastRestart, ...] = ()  # the last of them
    stop_step: int = NO_STEP  # at which a preempted job has saved

    @property
    def workers(self) -> int:
        return sum(self.sizes.values())

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code


def with_failures(report: Report, found: tuple[FailedWorker, ...], ended: tuple[tuple[str, int], ...] = ()) -> Report:
    """Add what all nodes found, in order of blame. A worker that has neither failed nor `ended` with 0 was stopped."""
    if not found:
        return report
    fallen = {(one.role, one.rank) for one in found}
    others = {*fallen, *ended, *report.ignored}
    workers = ((role, rank) for role, size in report.sizes.items() for rank in range(size))
    return report._replace(
        failed=tuple(one for number, one in enumerate(found) if number == 0 or not one.is_secondary),
        secondary=tuple(one for one in found[1:] if one.is_secondary),
        stopped=tuple(worker for worker in workers if worker not in others),
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
        "secondary_failures": [_failure_as_dict(failed) for failed in report.secondary],
        **({"ignored": [label(role, rank) for role, rank in report.ignored]} if report.ignored else {}),
        "stopped_by_flota": _as_list(report.stopped),
        **({"ended_before": _as_list(report.ended)} if report.ended else {}),
        **({"stop_step": report.stop_step} if report.stop_step != NO_STEP else {}),
        "began": round(report.began, 6),
        "restarts": [{field: getattr(one, field) for field in one._fields} for one in report.restarts],
        "lost_nodes": [host for one in report.restarts for host in one.lost],
    }


def _as_list(workers: Iterable[tuple[str, int]]) -> list[int | str]:
    return [rank if role == TRAINER else label(role, rank) for role, rank in workers]


# The keys of a failure in report.json, and the field behind each. Users read them: they keep their names.
OF_OTHER_NAMES = {
    "exit_code": "code",
    "signal": "code",
    "time": "at",
    "ran_seconds": "ran",
    "last_step": "step",
}
KEYS = (
    *("role", "rank", "local_rank", "node", "pid", "attempt", "exit_code", "signal", "cause", "exception", "ending"),
    *("asked_to_stop", "time", "ran_seconds", "last_step", "log", "said", "evidence", "hint"),
)
FAILURE_KEYS = {key: OF_OTHER_NAMES.get(key, key) for key in KEYS}
VERDICT_KEYS = {"verdict": "kind", **{key: key for key in ("exit_code", "attempt", "signal", "reason")}}
OF_REPORT = ("job_id", "rounds", "seconds", "log_dir", "began", "stop_step")
REPORT_KEYS = {"several_nodes": "several", **{key: key for key in OF_REPORT}}
NULL_BY_DEFAULT = ("rank", "local_rank", "exception", "last_step", "evidence", "hint")


def _failure_as_dict(failed: FailedWorker) -> dict[str, object]:
    facts = {key: getattr(failed, field) for key, field in FAILURE_KEYS.items()}
    nothing = FailedWorker()
    nulls = {key: None for key in NULL_BY_DEFAULT if facts[key] == getattr(nothing, FAILURE_KEYS[key])}
    return {
        **facts,
        **nulls,
        "exit_code": failed.code if failed.code >= 0 else None,
        "signal": -failed.code if failed.code < 0 else None,
        "time": round(failed.at, 6),
        "ran_seconds": round(failed.ran, 3),
        "said": list(failed.said),
    }


def report_from_dict(values: Mapping[str, Any]) -> Report:
    """What `report_as_dict` has made of a report; of another version's what is there."""
    report = _filled(Report("", Verdict(FAILED, 0, 0), {}, 0, 0.0, ""), REPORT_KEYS, values)
    return report._replace(
        verdict=_filled(report.verdict, VERDICT_KEYS, values),
        sizes=dict(values.get("roles") or {TRAINER: int(values.get("world_size") or 0)}),
        failed=tuple(map(_failure_from_dict, values.get("failures") or ())),
        secondary=tuple(
            _failure_from_dict(one)._replace(is_secondary=True) for one in values.get("secondary_failures") or ()
        ),
        stopped=tuple(map(_named, values.get("stopped_by_flota") or ())),
        ignored=tuple(map(_named, values.get("ignored") or ())),
        ended=tuple(map(_named, values.get("ended_before") or ())),
        restarts=tuple(_restart_from_dict(one) for one in values.get("restarts") or ()),
    )


def _restart_from_dict(values: Mapping[str, Any]) -> PastRestart:
    restart = _filled(PastRestart(0, 0.0, ""), {field: field for field in PastRestart._fields}, values)
    return restart._replace(lost=tuple(map(str, restart.lost)))


def _failure_from_dict(values: Mapping[str, Any]) -> FailedWorker:
    failed = _filled(FailedWorker(), FAILURE_KEYS, values)
    return failed._replace(
        code=-failed.code if values.get("signal") else failed.code, said=tuple(map(str, failed.said))
    )


def _filled(value: Value, keys: Mapping[str, str], values: Mapping[str, Any]) -> Value:
    """With what is there, each as what its field is."""
    known = {key: field for key, field in keys.items() if values.get(key) is not None}
    return value._replace(**{field: type(getattr(value, field))(values[key]) for key, field in known.items()})


def _named(worker: int | str) -> tuple[str, int]:
    if isinstance(worker, int):
        return TRAINER, worker
    role, _, rank = worker.rpartition(" ")
    return TRAINER if role == "rank" else role, int(rank)
