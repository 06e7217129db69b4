"""Which of several failures is to blame for the others. Pure."""

from __future__ import annotations

from flota.failures.patterns import TIMED_OUT
from flota.job.report import FailedWorker

REFUSED = "ConnectionRefusedError"
# How long after the end of another process one may fall because of it, in seconds. A closed connection is met at the
# next step. Where nothing tells of the end, frameworks give up by a time limit: half an hour, if none is set.
MET_WITHIN, GIVEN_UP_WITHIN = 300.0, 2400.0


def in_order_of_blame(found: list[FailedWorker]) -> list[FailedWorker]:
    """Who is to blame first, then who else failed by itself, then who failed as a consequence, each in order of time.

    Where all failures are secondary, one of them has seen a death before we have: then the one to blame is one
    that was asked to stop when it had failed already, or that had left too early.
    """
    failed = [one for one in found if not one.asked_to_stop and one.code != 0]
    suspects: list[FailedWorker] = []
    if all(one.is_secondary for one in failed):
        own = [one for one in found if one.asked_to_stop and not one.is_secondary]
        suspects = own or [one for one in found if one.code == 0 and _explains(one, failed)]
    first = sorted(suspects, key=lambda one: one.at)[:1]
    return first + sorted(failed, key=lambda one: (one.is_secondary, one.at))


def _explains(left: FailedWorker, secondary: list[FailedWorker]) -> bool:
    """Whether one that ended with 0 may have broken the others: they met it soon, or waited long for it. But who
    leaves resets connections: those who were refused a new one have asked somebody else for it."""
    if not secondary:
        return True
    first = min(secondary, key=lambda one: one.at)
    # Without an exception it was native code that gave up, and what it said is far above the stacks that follow.
    gave_up = not first.exception or any(text in line.lower() for line in first.said for text in TIMED_OUT)
    is_soon = first.at - left.at <= (GIVEN_UP_WITHIN if gave_up else MET_WITHIN)
    return is_soon and not all(one.exception == REFUSED for one in secondary)
