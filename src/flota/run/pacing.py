"""Ranks that are slower than the rest, told to people: looked for where ranks tell their steps."""

from __future__ import annotations

from flota.job.roles import label
from flota.run.console import Console
from flota.run.start import Started
from flota.supervise.stragglers import PERIOD, SECONDS, Stragglers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SELDOM = 60.0  # seconds between looks whether anybody tells of steps at all


class Pacing:
    def __init__(self, started: Started, console: Console, now: float) -> None:
        self.deadline = now + SECONDS
        self._started = started
        self._console = console
        self._stragglers = Stragglers()

    def look(self, workers: Iterable[int], now: float) -> None:
        channel = self._started.channel
        seconds = {worker: channel.read(worker).seconds for worker in workers}
        self.deadline = now + (PERIOD if any(seconds.values()) else SELDOM)
        for one in self._stragglers.look(now, seconds):
            worker = self._started.plans[one.worker].worker
            who = f"{label(worker.name, worker.rank)} on {self._started.roster.seats[self._started.seat].node}"
            self._console.event("straggler", rank=worker.rank, factor=round(one.factor, 2), recovered=one.recovered)
            if one.recovered:
                self._console.say("INFO", f"{who} is as fast as the others again")
            else:
                self._console.say("WARNING", f"{who} is slow: its steps take {one.factor:.1f} times as long as others'")
