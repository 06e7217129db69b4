"""Ranks that are slower than the rest, by what they tell of their steps."""

from __future__ import annotations

from flota.values import NamedTuple

SLOW, FAIR = 1.5, 1.2  # times as long as the middle one's steps
STEPS, SECONDS = 5, 30.0  # it must last so long
PERIOD = 10.0  # seconds between looks


class Straggler(NamedTuple):
    """A rank that has become slow, or is as fast as the rest again."""

    worker: int
    factor: float
    recovered: bool = False


class Stragglers:
    """Each is told of once, and once more when it is over."""

    def __init__(self) -> None:
        self._named: set[int] = set()
        self._since: dict[int, float] = {}

    def look(self, now: float, seconds: dict[int, float]) -> list[Straggler]:
        """`seconds`: what a step takes, by worker; 0.0: not known."""
        known = {worker: took for worker, took in seconds.items() if took > 0}
        told: list[Straggler] = []
        for worker, took in known.items():
            rest = sorted(other for one, other in known.items() if one != worker)
            if not rest:
                continue
            factor = took / rest[len(rest) // 2]
            named = worker in self._named
            changing = factor < FAIR if named else factor > SLOW
            if not changing:
                self._since.pop(worker, None)
            elif now - self._since.setdefault(worker, now) >= max(SECONDS, STEPS * took):
                del self._since[worker]
                (self._named.discard if named else self._named.add)(worker)
                told.append(Straggler(worker, factor, recovered=named))
        return told
