"""Finds ranks that are slower than the others, by the step times that ranks report. Pure."""

from __future__ import annotations

from flota.job.printable import are_printable
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flota.host.heartbeat_page import Heartbeat

    Who = tuple[str, int]  # role and rank
    HostSteps = tuple[str, tuple["StepTime", ...]]
    SlowRanks = tuple["SlowRank", ...]

SLOW, RECOVERED = 1.5, 1.2  # step time relative to the median
STEPS, SECONDS = 5, 30.0  # how long it must last: the longer of the two
PERIOD = 10.0  # seconds between checks
OWN_TIME = "seconds"  # the key with which a script reports its own step time
WORTH_REPORTING = 0.1  # relative change: a thousand nodes must not write at every small one


class StepTime(NamedTuple):
    """The seconds per step of a rank, 0.0 if unknown, and the last `step` that it has reported."""

    rank: int
    seconds: float
    role: str = TRAINER
    step: int = NO_STEP  # not in node records, because it changes all the time


class SlowRank(NamedTuple):
    """A rank that is slower than the others of its role, by this factor."""

    rank: int
    host: str
    factor: float
    role: str = TRAINER


class SlowRankWatch:
    """Which ranks of a round are slow. `deadline`: when to check again even if nothing changes."""

    def __init__(self, threshold: float = SLOW) -> None:
        """`threshold`: a rank is slow above it."""
        self.deadline: float | None = None
        self._threshold, self._recovered = threshold, min(RECOVERED, threshold)
        self._round = -1
        self._since: dict[Who, float] = {}  # ranks that seem to have become slow, or to have recovered

    def update(self, round_number: int, known: SlowRanks, steps: Iterable[HostSteps], now: float) -> SlowRanks:
        """`known`: the ranks that are slow so far. Returns the ranks that are slow now."""
        if round_number != self._round:
            self._round, self.deadline = round_number, None
            self._since.clear()
        if self.deadline is not None and now < self.deadline:
            return known
        slow: dict[Who, SlowRank] = {(row.role, row.rank): row for row in known}
        rows = {(row.role, row.rank): (host, row.seconds) for host, rows in steps for row in rows}
        self.deadline = now + PERIOD if rows else None
        for who, factor in factors({who: seconds for who, (_, seconds) in rows.items()}).items():
            host, seconds = rows[who]
            changes = factor < self._recovered if who in slow else factor > self._threshold
            if not changes:
                self._since.pop(who, None)
            elif now - self._since.setdefault(who, now) >= max(SECONDS, STEPS * seconds):
                del self._since[who]
                if slow.pop(who, None) is None:
                    slow[who] = SlowRank(who[1], host, round(factor, 2), who[0])
        return tuple(slow.values())


def factors(seconds: Mapping[Who, float]) -> dict[Who, float]:
    """The step time of each rank relative to the median of the other ranks of its role."""
    roles: dict[str, list[tuple[float, Who]]] = {}
    for who, took in seconds.items():
        roles.setdefault(who[0], []).append((took, who))
    found: dict[Who, float] = {}
    for own in roles.values():
        own.sort()
        middle = (len(own) - 1) // 2
        for place, (took, who) in enumerate(own):
            if len(own) > 1:
                found[who] = took / own[middle if middle < place else middle + 1][0]
    return found


def step_time(rank: int, role: str, beat: Heartbeat) -> StepTime:
    """The step time in a heartbeat. A script may report its own time, which excludes waiting for other ranks."""
    row = StepTime(rank, float(f"{beat.numbers.get(OWN_TIME, 0.0) or beat.seconds:.3g}"), role, beat.step)
    return row if is_step_time(row) else row._replace(seconds=0.0)


def is_step_time(row: StepTime) -> bool:
    """Whether it is plausible: scripts may report anything."""
    return 1e-9 < row.seconds < 1e9 and are_printable([row.role])


def reported_steps(before: tuple[StepTime, ...], steps: tuple[StepTime, ...]) -> tuple[StepTime, ...]:
    """The step times for the node record: the previous ones unless they have changed much."""
    known = {(row.role, row.rank): row.seconds for row in before}
    same = len(steps) == len(known) and all(
        abs(row.seconds - known.get((row.role, row.rank), 0.0)) <= WORTH_REPORTING * row.seconds for row in steps
    )
    return before if same else steps
