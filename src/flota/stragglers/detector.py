"""Ranks that are slower than the rest, by what they tell of their steps. Pure."""

from __future__ import annotations

from flota.job.printable import are_printable
from flota.job.roles import TRAINER
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Who = tuple[str, int]  # role and rank

SLOW, FAIR = 1.5, 1.2  # times as long as the middle one's steps
STEPS, SECONDS = 5, 30.0  # it must last so long
PERIOD = 10.0  # seconds between looks


class StepTime(NamedTuple):
    """How many seconds a step takes one rank."""

    rank: int
    seconds: float
    role: str = TRAINER


class SlowRank(NamedTuple):
    """A rank that is slower than the rest of its role, and how many times."""

    rank: int
    host: str
    factor: float
    role: str = TRAINER


class Straggler(NamedTuple):
    """A rank that has become slow, or is as fast as the rest again."""

    role: str
    rank: int
    factor: float
    recovered: bool = False


class Stragglers:
    """Each is told of once, and once more when it is over. `named`: of whom people know already."""

    def __init__(self, named: Iterable[Who] = ()) -> None:
        self._named = set(named)
        self._since: dict[Who, float] = {}

    def look(self, now: float, seconds: Mapping[Who, float]) -> list[Straggler]:
        """`seconds`: what a step takes; 0.0: not known. Ranks are compared with those of their own role."""
        told: list[Straggler] = []
        for who, factor in factors(seconds).items():
            named = who in self._named
            changing = factor < FAIR if named else factor > SLOW
            if not changing:
                self._since.pop(who, None)
            elif now - self._since.setdefault(who, now) >= max(SECONDS, STEPS * seconds[who]):
                del self._since[who]
                (self._named.discard if named else self._named.add)(who)
                told.append(Straggler(*who, factor, recovered=named))
        return told


def factors(seconds: Mapping[Who, float]) -> dict[Who, float]:
    """How many times as long each one's steps take as those of the middle one of the others."""
    roles: dict[str, list[tuple[float, Who]]] = {}
    for who, took in seconds.items():
        if took > 0:
            roles.setdefault(who[0], []).append((took, who))
    found: dict[Who, float] = {}
    for own in roles.values():
        own.sort()
        middle = (len(own) - 1) // 2
        for place, (took, who) in enumerate(own):
            if len(own) > 1:
                found[who] = took / own[middle if middle < place else middle + 1][0]
    return found


def is_step_time(row: StepTime) -> bool:
    """Whether a step can take so long; scripts may report anything."""
    return 1e-9 < row.seconds < 1e9 and are_printable([row.role])
