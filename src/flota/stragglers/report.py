"""What this node's ranks tell of their steps, and what people are told of slow ones."""

from __future__ import annotations

from flota.job.roles import label
from flota.stragglers.detector import PERIOD, Stragglers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from flota.run.console import Console
    from flota.run.start import Started
    from flota.stragglers.detector import Who

SELDOM = 60.0  # seconds between looks whether anybody tells of steps at all
OWN_TIME = "seconds"  # a number by which a script tells what a step took it, without waiting for the others


class Pacing:
    """Of one round. `deadline`: when to look next."""

    def __init__(self, started: Started, now: float) -> None:
        self.deadline = now + PERIOD
        self._started = started

    def look(self, workers: Iterable[int], now: float) -> dict[Who, float]:
        """What a step takes, by role and rank; 0.0: not known."""
        seconds: dict[Who, float] = {}
        for number in workers:
            worker, beat = self._started.plans[number].worker, self._started.channel.read(number)
            seconds[worker.name, worker.rank] = beat.numbers.get(OWN_TIME, 0.0) or beat.seconds
        self.deadline = now + (PERIOD if any(seconds.values()) else SELDOM)
        return seconds


class SlowRanks:
    """Of a round on one machine: found, and told to people."""

    def __init__(self, console: Console, host: str) -> None:
        self._console = console
        self._host = host
        self._stragglers = Stragglers()

    def look(self, seconds: dict[Who, float], now: float) -> None:
        for one in self._stragglers.look(now, seconds):
            if one.recovered:
                tell_of_recovered(self._console, one.role, one.rank, self._host)
            else:
                tell_of_slow(self._console, one.role, one.rank, self._host, one.factor)


def tell_of_slow(console: Console, role: str, rank: int, host: str, factor: float) -> None:
    console.event("straggler", role=role, rank=rank, host=host, factor=round(factor, 2), recovered=False)
    who = f"{label(role, rank)} on {host}"
    console.say("WARNING", f"{who} is slow: its steps take {factor:.1f} times as long as the others'")


def tell_of_recovered(console: Console, role: str, rank: int, host: str) -> None:
    console.event("straggler", role=role, rank=rank, host=host, recovered=True)
    console.say("INFO", f"{label(role, rank)} on {host} is as fast as the others again")
