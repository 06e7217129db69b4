"""How far all ranks of a job are, and how fast. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from flota.control.status import RankStatus
from flota.job.report import NO_STEP
from flota.run.progress import seconds_left

Json = dict[str, Any]
MOST_NUMBERS = 8  # given to flota.heartbeat, that have a curve


def progress_of(all_ranks: Iterable[RankStatus], pace: float = 0.0) -> Json:
    """Of the slowest rank. Numbers are the means of all ranks that report them. `pace`: steps per second, if measured.
    `eta`: seconds that are left at this pace."""
    ranks = list(all_ranks)
    working = [rank for rank in ranks if rank.step != NO_STEP]
    times = sorted(rank.step_seconds for rank in working if rank.step_seconds > 0)
    middle = median(times) if times else None
    step, total = min((rank.step for rank in working), default=None), max((rank.total for rank in ranks), default=0)
    names = sorted({name for rank in ranks for name in rank.numbers})[:MOST_NUMBERS]
    found = {name: [rank.numbers.get(name) for rank in ranks] for name in names}
    numbers = {name: finite for name, values in found.items() if (finite := [one for one in values if one is not None])}
    return {
        "step": step,
        "total": total or None,
        "seconds": middle,
        "fastest": times[0] if times else None,
        "slowest": times[-1] if times else None,
        "eta": seconds_left(step, total, pace or (1 / middle if middle else 0.0)) if step is not None else None,
        "numbers": {name: sum(values) / len(values) for name, values in numbers.items()},
    }
