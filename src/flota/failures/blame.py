"""Decides which of several failures caused the others. Pure."""

from __future__ import annotations

from flota.failures.patterns import TIMED_OUT
from flota.job.report import FailedWorker

REFUSED = "ConnectionRefusedError"
# Seconds after a worker exits in which its exit may make others fail. They notice a closed connection at their next
# step. If nothing closes, frameworks time out, by default after half an hour.
NOTICED_WITHIN, TIMED_OUT_WITHIN = 300.0, 2400.0


def in_order_of_blame(found: list[FailedWorker]) -> list[FailedWorker]:
    """The culprit first, then other primary failures, then secondary ones, each by time.

    If all failures are secondary, the primary one was noticed by other workers before flota. The culprit is then a
    worker that had already failed when it was asked to stop, or that exited early with code 0.
    """
    failed = [one for one in found if not one.asked_to_stop and one.code != 0]
    suspects: list[FailedWorker] = []
    if all(one.is_secondary for one in failed):
        own = [one for one in found if one.asked_to_stop and not one.is_secondary]
        suspects = own or [one for one in found if one.code == 0 and _explains(one, failed)]
    first = sorted(suspects, key=lambda one: one.at)[:1]
    return first + sorted(failed, key=lambda one: (one.is_secondary, one.at))


def _explains(exited: FailedWorker, secondary: list[FailedWorker]) -> bool:
    """Whether a worker that exited with 0 may have caused the secondary failures: they followed soon, or after a
    timeout. A worker that exits resets connections, so failures that are all refused connections have another cause."""
    if not secondary:
        return True
    first = min(secondary, key=lambda one: one.at)
    # Without an exception native code timed out, and its message is far above the stacks that follow it.
    timed_out = not first.exception or any(text in line.lower() for line in first.said for text in TIMED_OUT)
    is_soon = first.at - exited.at <= (TIMED_OUT_WITHIN if timed_out else NOTICED_WITHIN)
    return is_soon and not all(one.exception == REFUSED for one in secondary)
