"""Decides whether and when failed workers are restarted: a function of failure, history and policy. Pure."""

from __future__ import annotations

from flota.job.causes import AT_START, FROM_OUTSIDE, HUNG, NOT_STARTED, is_hang, signal_of
from flota.job.report import NO_STEP, FailedWorker
from flota.job.spec import RestartPolicy
from flota.values import NamedTuple

LONG_RUN = 60.0  # seconds that count as progress if no steps are reported
AT_ONCE = 2  # quick failures in a row that are restarted without delay
FIRST_DELAY = 1.0  # seconds, doubled each time


class History(NamedTuple):
    """What is known of earlier failures."""

    quick: int = 0  # failures in a row without progress
    same: int = 0  # failures in a row of the same kind
    kind: str = ""
    best: int = NO_STEP  # the furthest step that was ever reported
    worked: bool = False  # an earlier run has made progress


class Decision(NamedTuple):
    """`why`: the reason for not restarting although restarts are enabled and left."""

    restarts: bool
    history: History
    delay: float = 0.0
    why: str = ""


def decide(failure: FailedWorker, history: History, attempt: int, policy: RestartPolicy) -> Decision:
    """N restarts are N + 1 runs. At elastic level 0 a failing node leaves, so nothing is restarted in place. Failures
    of a role can be final.
    """
    history = add_failure(history, failure)
    if failure.final or not has_restarts_left(attempt, policy):
        return Decision(False, history)  # noqa: FBT003
    why = _reason_against_restart(failure, history, policy)
    waits = history.quick - AT_ONCE
    delay = float(min(policy.backoff, FIRST_DELAY * 2 ** min(waits - 1, 32))) if waits > 0 else 0.0
    return Decision(not why, history, delay, why)


def has_restarts_left(attempt: int, policy: RestartPolicy) -> bool:
    return policy.enabled and policy.elastic_level != 0 and attempt < policy.last_attempt


def add_failure(history: History, failure: FailedWorker) -> History:
    """Failures from outside say nothing about the job: they do not count as a crash loop, and cause no delay."""
    advanced = failure.step > history.best if failure.step != NO_STEP else failure.ran >= LONG_RUN
    history = history._replace(best=max(history.best, failure.step), worked=history.worked or advanced)
    if advanced:
        return history._replace(quick=0, same=0, kind="")
    if failure.cause in FROM_OUTSIDE:
        return history
    kind = f"{failure.cause} {failure.exception or failure.code}"
    same = history.same + 1 if kind == history.kind else 1
    return history._replace(quick=history.quick + 1, same=same, kind=kind)


def names_of(failure: FailedWorker) -> set[str]:
    """The names by which --restart-on and --no-restart-on select it."""
    from flota.humanize import signal_name

    code = str(failure.code) if failure.code >= 0 else ""
    hang = HUNG if is_hang(failure.code, failure.cause) else ""  # also if a rank that exited early is the cause
    signal = signal_name(signal_of(failure.code)) if signal_of(failure.code) else ""
    return {code, signal, hang, failure.cause, failure.exception, failure.exception.rpartition(".")[2]} - {""}


def _reason_against_restart(failure: FailedWorker, history: History, policy: RestartPolicy) -> str:
    named = names_of(failure)
    if failure.cause == NOT_STARTED:
        return "the worker could not be started"
    if named & set(policy.no_restart_on):
        return f"--no-restart-on {','.join(policy.no_restart_on)}"
    if policy.restart_on and not named & set(policy.restart_on):
        return f"--restart-on {','.join(policy.restart_on)}"
    if failure.cause in AT_START and not policy.restart_on and not history.worked:
        return f"it would fail in the same way ({failure.cause})"
    if policy.crash_loop and history.same >= policy.crash_loop:
        return f"the same failure {history.same} times in a row, without progress"
    return ""
