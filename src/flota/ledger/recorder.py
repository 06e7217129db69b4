"""Records in a node's events where the time of its workers goes: at their exit, and at growing intervals."""

from __future__ import annotations

import os

from flota.job.roles import TRAINER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from flota.run.console import Console
    from flota.run.start import Started

FIRST_RECORD = 2.5  # seconds into the round; then twice as long each time, up to PERIOD
PERIOD, SHARE = 10.0, 0.01  # seconds between later records: at least, and as a share of the round so far
MOST_NUMBERS, LONGEST_NAME = 8, 64  # that were given to flota.heartbeat; characters
LARGEST_NUMBER = 1e300
FIRST_CHECK, GROWTH = 0.2, 1.25  # seconds until the first check for output, and the factor between later ones


class WorkRecorder:
    """For one round. `deadline`: when to call `on_time` next."""

    def __init__(self, started: Started, console: Console, now: float) -> None:
        self._started = started
        self._console = console
        self._stops = False
        self._began = now
        self._outputs: dict[int, float] = {}  # when a worker was first seen to have written output
        self._check_at = now + FIRST_CHECK if started.marks else None
        self._record_at = now + FIRST_RECORD
        self._recorded: dict[int, float] = {}

    @property
    def deadline(self) -> float:
        return min(self._record_at, self._check_at or self._record_at)

    def on_time(self, workers: Iterable[int], now: float) -> None:
        """Record what is new about workers that are alive."""
        if self._check_at is not None and now >= self._check_at:
            self._check_output(now)
        if now < self._record_at:
            return
        elapsed = now - self._began
        self._record_at = now + max(min(PERIOD, elapsed), SHARE * elapsed)
        beats = {worker: self._started.channel.read(worker).at for worker in workers}
        new = [worker for worker, at in beats.items() if at != self._recorded.get(worker, 0.0)]
        self._recorded = beats
        if new:
            self._console.event("progress", ranks=[{**self._name(worker), **self._times_of(worker)} for worker in new])

    def note_stop(self) -> None:
        """Record that workers are asked to stop, once."""
        if not self._stops:
            self._stops = True
            self._console.event("stopping_workers")

    def facts_of(self, worker: int) -> dict[str, object]:
        """What is known of a worker that has exited."""
        times = self._times_of(worker)
        return {"times": times} if times else {}

    def _check_output(self, now: float) -> None:
        for worker, plan in enumerate(self._started.plans):
            if worker not in self._outputs and any(self._has_output(path) for path in plan.worker.logs):
                self._outputs[worker] = now
        spoke = len(self._outputs) == len(self._started.plans)
        self._check_at = None if spoke else self._began + (now - self._began) * GROWTH

    def _has_output(self, path: str) -> bool:
        try:
            return path in self._started.marks and os.stat(path).st_size > self._started.marks[path][1]
        except OSError:
            return False  # it was removed

    def _name(self, worker: int) -> dict[str, object]:
        own = self._started.plans[worker].worker
        return {"rank": own.rank, **({} if own.name == TRAINER else {"role": own.name})}

    def _times_of(self, worker: int) -> dict[str, object]:
        """See PageTimes; and the step time, the total of steps and the numbers, from which curves are drawn."""
        output: dict[str, object] = {"output_at": round(self._outputs[worker], 6)} if worker in self._outputs else {}
        beat = self._started.channel.read(worker)
        if not beat.times:
            return output  # the case in most jobs: they do not load the module below
        from flota.ledger.page import decode_times, times_as_dict

        more = {"seconds": round(beat.seconds, 6), "total": beat.total, "numbers": _finite(beat.numbers)}
        known = {name: value for name, value in more.items() if value}
        return {**times_as_dict(decode_times(beat)), **known, **output}


def _finite(numbers: dict[str, float]) -> dict[str, float]:
    """Some of them, with six digits. JSON has neither infinity nor NaN."""
    some = list(numbers.items())[:MOST_NUMBERS]
    return {name[:LONGEST_NAME]: float(f"{value:.6g}") for name, value in some if abs(value) < LARGEST_NUMBER}
