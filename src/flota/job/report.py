"""How a job ended: the verdict, its failures and the exit code. Pure."""

from __future__ import annotations

from flota.errors import TIMEOUT, TRY_AGAIN
from flota.job.causes import EXITED
from flota.job.roles import TRAINER, label
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypeVar

    Value = TypeVar("Value", bound=NamedTuple)

SUCCEEDED, FAILED, STOPPED = "succeeded", "failed", "stopped"
INCOMPLETE = "incomplete"  # too few nodes joined, or too few are left
HANG_IN_WORDS = "hang"  # shown instead of an exit code
NO_STEP = -1
MOST_RESTARTS = 50  # that a report lists
# Limits for what is read from a file, which may be damaged.
MOST_WORKERS = 1 << 20
MOST_SAID = 200  # lines
LARGEST_NUMBER = 1e12


class FailedWorker(NamedTuple):
    """One failure. The supervisor sets `worker`, `code`, `cause`, `ran`, `at` and `final`; run/evidence.py adds rank,
    node, ending, last output and so on. Rank -1 is the shepherd, or no particular rank.

    `final`: a failure of this role ends the job, whatever the restart policy. `is_secondary`: it failed as a
    consequence of another failure.
    """

    rank: int = -1
    local_rank: int = -1
    node: str = ""
    pid: int = 0
    code: int = 0  # the exit code, or -N for signal N
    cause: str = EXITED
    ending: str = ""
    ran: float = 0.0
    log: str = ""
    said: tuple[str, ...] = ()  # its last output; for a hang: what each rank is waiting on
    role: str = TRAINER
    final: bool = False
    attempt: int = 0
    step: int = NO_STEP
    # Seconds since 1970 by the clock of its node or, in a report of several nodes, of the coordinator. In the
    # supervisor: monotonic time.
    at: float = 0.0
    asked_to_stop: bool = False  # before it exited: then its output says more than its exit code
    is_secondary: bool = False
    exception: str = ""  # the type of its uncaught exception, if any
    evidence: str = ""
    hint: str = ""
    worker: int = -1  # its index on its node


class Verdict(NamedTuple):
    """How a job ended. `failures` are those of the last round, the culprit first."""

    kind: str
    exit_code: int
    attempt: int
    failures: tuple[FailedWorker, ...] = ()
    signal: int = 0
    reason: str = ""  # without failures: what ended the job; otherwise why it was not restarted
    stopped_by: str = ""  # what asked the job to stop, for example SIGUSR1; workers may have got another signal


def reason_of_timeout(limit: str, *, saved: bool) -> str:
    """Why --timeout ended the job. `saved`: all ranks have saved and exited on their own."""
    return f"stopped after --timeout {limit}{': all ranks saved and exited' if saved else ''}"


def exit_code_of(code: int) -> int:
    """Return a process's exit code, or 128 + N for signal N."""
    return code if code >= 0 else 128 - code


def exit_code_of_all(failures: Iterable[FailedWorker]) -> int:
    """Return the culprit's exit code; `failures` begin with it. If flota ended it by a signal, take the code of the
    first that failed as a consequence. If it exited too early with 0, return 1: in what way others failed is chance.
    """
    meaningful = (one.code for one in failures if not (one.asked_to_stop and one.code < 0))
    return exit_code_of(next(meaningful, 1)) or 1


class JobEnding(NamedTuple):
    """How a job of several nodes ended, the same on every node. `failures` begin with the culprit."""

    kind: str
    code: int = 0
    signal: int = 0
    reason: str = ""
    failures: tuple[FailedWorker, ...] = ()
    ended: tuple[tuple[str, int], ...] = ()  # workers that had finished successfully when others failed
    stopped_by: str = ""  # what asked the first node to stop, for example SIGUSR1


def after_timeout(ending: JobEnding, limit: str) -> JobEnding:
    """The same ending, of a job that --timeout has stopped."""
    return ending._replace(code=TIMEOUT, signal=0, reason=reason_of_timeout(limit, saved=ending.code == TRY_AGAIN))


RESTART_REQUESTED = "restart requested"


class PastRestart(NamedTuple):
    """Why a round ended and the next one began: a worker failed, or nodes came or went."""

    round: int  # the one that ended
    at: float  # seconds since 1970
    reason: str  # for example `rank 2 FileNotFoundError` or `gpu03 was lost`
    counted: bool = True  # by --max_restart
    lost: tuple[str, ...] = ()  # hosts


class BoundWorker(NamedTuple):
    """The CPUs to which --bind has bound a worker of this node."""

    role: str = TRAINER
    rank: int = 0
    node: str = ""
    cpus: str = ""
    memory_node: int = -1


def failure_in_brief(failed: FailedWorker, *, name_host: bool = False) -> str:
    """For example `rank 2 FileNotFoundError`."""
    who = label(failed.role, failed.rank) if failed.rank >= 0 else "shepherd"
    where = f" on {failed.node}" if name_host and failed.node else ""
    return f"{who}{where} {failed.exception.rpartition('.')[2] or failed.ending.partition(' (')[0]}"


def exception_message(failed: FailedWorker) -> list[str]:
    """The line of its traceback that names the exception, if there is one."""
    name = failed.exception.rpartition(".")[2]
    return [line.strip() for line in failed.said if name and name in line.partition(":")[0]][-1:]


class Report(NamedTuple):
    """How a job ended, for the console, report.json and the exit code. `sizes`: number of workers by role name.

    `failed`: the culprit first, then other independent failures. `secondary`: failures as a consequence of these.
    """

    job_id: str
    verdict: Verdict
    sizes: dict[str, int]
    rounds: int
    seconds: float
    log_dir: str
    failed: tuple[FailedWorker, ...] = ()
    stopped: tuple[tuple[str, int], ...] = ()  # role and rank
    ignored: tuple[tuple[str, int], ...] = ()  # failed workers of roles whose failures are ignored
    secondary: tuple[FailedWorker, ...] = ()
    several: bool = False  # several nodes: then hosts are named
    ended: tuple[tuple[str, int], ...] = ()  # exited with 0 before others failed
    began: float = 0.0  # seconds since 1970
    restarts: tuple[PastRestart, ...] = ()  # the last of them
    stop_step: int = NO_STEP  # at which a preempted job has saved
    bindings: tuple[BoundWorker, ...] = ()
    spares: tuple[str, ...] = ()  # hosts of nodes that waited to replace others when the job ended
    final: bool = True  # False: written when the job began to stop
    ledger: dict[str, object] = {}  # noqa: RUF012  where the time went: see ledger/ledger.py

    @property
    def workers(self) -> int:
        return sum(self.sizes.values())

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code


def ending_in_brief(report: Report) -> str:
    """For example `failed: rank 2 FileNotFoundError, exit code 1`."""
    if report.verdict.kind == SUCCEEDED:
        return SUCCEEDED
    why = failure_in_brief(report.failed[0], name_host=report.several) if report.failed else report.verdict.reason
    return f"{report.verdict.kind}{f': {why}' if why else ''}, exit code {report.exit_code}"


def with_failures(report: Report, found: tuple[FailedWorker, ...], ended: tuple[tuple[str, int], ...] = ()) -> Report:
    """Add the failures that all nodes found, the culprit first. Workers that neither failed nor `ended` with 0 were
    stopped."""
    if not found:
        return report
    failed = {(one.role, one.rank) for one in found}
    not_stopped = {*failed, *ended, *report.ignored}
    workers = ((role, rank) for role, size in report.sizes.items() for rank in range(size))
    return report._replace(
        failed=tuple(one for number, one in enumerate(found) if number == 0 or not one.is_secondary),
        secondary=tuple(one for one in found[1:] if one.is_secondary),
        stopped=tuple(worker for worker in workers if worker not in not_stopped),
        ended=tuple(worker for worker in ended if worker not in failed),
    )


def report_as_dict(report: Report) -> dict[str, object]:
    return {
        "job_id": report.job_id,
        **({} if report.final else {"final": False}),
        "verdict": report.verdict.kind,
        "exit_code": report.verdict.exit_code,
        "signal": report.verdict.signal or None,
        **({"stopped_by": report.verdict.stopped_by} if report.verdict.stopped_by else {}),
        "reason": report.verdict.reason or None,
        "attempt": report.verdict.attempt,
        "rounds": report.rounds,
        "world_size": report.workers,
        **({"roles": report.sizes} if set(report.sizes) - {TRAINER} else {}),
        "seconds": round(report.seconds, 3),
        "log_dir": report.log_dir,
        "several_nodes": report.several,
        "failures": [failure_as_dict(failed) for failed in report.failed],
        "secondary_failures": [failure_as_dict(failed) for failed in report.secondary],
        **({"ignored": [label(role, rank) for role, rank in report.ignored]} if report.ignored else {}),
        "stopped_by_flota": _as_list(report.stopped),
        **({"ended_before": _as_list(report.ended)} if report.ended else {}),
        **({"stop_step": report.stop_step} if report.stop_step != NO_STEP else {}),
        **({"bindings": [_binding_as_dict(one) for one in report.bindings]} if report.bindings else {}),
        "began": round(report.began, 6),
        "restarts": [{field: getattr(one, field) for field in one._fields} for one in report.restarts],
        "lost_nodes": [host for one in report.restarts for host in one.lost],
        **({"spares": list(report.spares)} if report.spares else {}),
        **({"ledger": report.ledger} if report.ledger else {}),
    }


def _binding_as_dict(one: BoundWorker) -> dict[str, object]:
    facts = {field: getattr(one, field) for field in one._fields}
    return {**facts, "memory_node": one.memory_node if one.memory_node >= 0 else None}


def _as_list(workers: Iterable[tuple[str, int]]) -> list[int | str]:
    return [rank if role == TRAINER else label(role, rank) for role, rank in workers]


# The keys of a failure in report.json, and their fields. The keys are a public interface: do not rename them.
RENAMED_FIELDS = {
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
FAILURE_KEYS = {key: RENAMED_FIELDS.get(key, key) for key in KEYS}
VERDICT_KEYS = {"verdict": "kind", **{key: key for key in ("exit_code", "attempt", "signal", "reason", "stopped_by")}}
OF_REPORT = ("job_id", "rounds", "seconds", "log_dir", "began", "stop_step", "final")
REPORT_KEYS = {"several_nodes": "several", **{key: key for key in OF_REPORT}}
NULL_BY_DEFAULT = ("rank", "local_rank", "exception", "last_step", "evidence", "hint")


def failure_as_dict(failed: FailedWorker) -> dict[str, object]:
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


def report_from_dict(data: Mapping[str, Any]) -> Report:
    """Read what `report_as_dict` wrote. Keys that another version did not write keep their defaults."""
    report = _fill(Report("", Verdict(FAILED, 0, 0), {}, 0, 0.0, ""), REPORT_KEYS, data)
    sizes = data.get("roles") or {TRAINER: data.get("world_size") or 0}
    return report._replace(
        verdict=_fill(report.verdict, VERDICT_KEYS, data),
        sizes={_checked("", role): _checked(0, size, MOST_WORKERS) for role, size in sizes.items()},
        failed=tuple(map(_failure_from_dict, data.get("failures") or ())),
        secondary=tuple(
            _failure_from_dict(one)._replace(is_secondary=True) for one in data.get("secondary_failures") or ()
        ),
        stopped=tuple(map(_parse_worker, data.get("stopped_by_flota") or ())),
        ignored=tuple(map(_parse_worker, data.get("ignored") or ())),
        ended=tuple(map(_parse_worker, data.get("ended_before") or ())),
        restarts=tuple(map(_restart_from_dict, data.get("restarts") or ())),
        spares=tuple(map(str, data.get("spares") or ())),
        bindings=tuple(
            _fill(BoundWorker(), {field: field for field in BoundWorker._fields}, one)
            for one in data.get("bindings") or ()
        ),
    )


def _restart_from_dict(data: Mapping[str, Any]) -> PastRestart:
    restart = _fill(PastRestart(0, 0.0, ""), {field: field for field in PastRestart._fields}, data)
    return restart._replace(lost=tuple(map(str, restart.lost)))


def _failure_from_dict(data: Mapping[str, Any]) -> FailedWorker:
    failed = _fill(FailedWorker(), FAILURE_KEYS, data)
    said = tuple(map(str, failed.said[:MOST_SAID]))
    return failed._replace(code=-failed.code if data.get("signal") else failed.code, said=said)


def _fill(value: Value, keys: Mapping[str, str], data: Mapping[str, Any]) -> Value:
    """Return the value with the fields that `data` has."""
    known = {key: field for key, field in keys.items() if data.get(key) is not None}
    return value._replace(**{field: _checked(getattr(value, field), data[key]) for key, field in known.items()})


def _checked(default: object, value: object, largest: float = LARGEST_NUMBER) -> Any:
    """The value, with the type of the default. Raises TypeError or ValueError if a report cannot contain it."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        value = float(value) if abs(value) <= largest else value
    if type(value) is not type(default):
        raise TypeError(f"{value!r} instead of {default!r}")
    if isinstance(value, (int, float)) and not abs(value) <= largest:  # not a number: no comparison is true
        raise ValueError(f"{value!r} is out of range")
    return value


def _parse_worker(worker: object) -> tuple[str, int]:
    if isinstance(worker, str):
        role, _, rank = worker.rpartition(" ")
        return TRAINER if role == "rank" else role, _checked(0, int(rank))
    return TRAINER, _checked(0, worker)
