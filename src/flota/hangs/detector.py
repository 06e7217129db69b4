"""When a job hangs: no rank has given a sign of life for as long as the user allows, and none is at work.

Decides; never looks, waits or reads the clock. Pure.
"""

from __future__ import annotations

from flota.hangs.activity import DOUBTFUL, SampledAt, is_elsewhere, work_of
from flota.hangs.stack_dump import Sample
from flota.job.spec import LEARNT
from flota.values import NamedTuple

START, FLOOR, TIMES = 1800.0, 120.0, 3.0  # of `auto`: until anything is known, at least, of the longest quiet time
ALIVE = 1 / 10  # of the timeout: between looks at what ranks report
STILL = 0.3  # of it, after it: while samples are taken, which cost much, no rank may make progress
SAMPLES = 1 / 20  # of it: between them
ENOUGH = 6  # of them
LATELY = 0.35  # of it: older samples do not count, unless there are too few
REST = 1 / 4  # of it: between samples while there is work, or while only other nodes can have any
BELIEVED = 5  # timeouts without a step, in which doubtful work is work


class Signs(NamedTuple):
    """Signs of life of this node's working ranks: by worker its step (-1: none reported) and when it sent its last
    heartbeat; and how much all have printed."""

    steps: dict[int, int]
    beats: dict[int, float]
    printed: int


class Hangs:
    """Of one node. `deadline`: when to look next; `idle`: none of its ranks has made progress for the timeout."""

    def __init__(self, wish: float, now: float, *, on_devices: bool = False) -> None:
        """`wish`: the user's timeout, or LEARNT for one that keeps to the job's rhythm."""
        self.wish = wish
        self.on_devices = on_devices
        self.longest = 0.0  # quiet time that ended by itself
        self.heard = False
        self.last_sign = now
        self.idle = False
        self.work = ""  # why a quiet job was not taken for a hang, once for each quiet time
        self.deadline = now + self._rhythm
        self._last: Signs | None = None
        self._histories: dict[int, list[SampledAt]] = {}
        self._worked_at = now
        self._excused = False

    @property
    def timeout(self) -> float:
        if self.wish != LEARNT:
            return self.wish
        return max(FLOOR, TIMES * self.longest) if self.heard else START

    @property
    def _rhythm(self) -> float:
        """Between looks at what ranks report: silence is known no better than by it, and a long one would be learnt."""
        learns = self.wish == LEARNT and not self.heard
        return ALIVE * (FLOOR if learns else self.timeout)

    @property
    def counts_steps(self) -> bool:
        """Whether all ranks report steps: then these count, whatever else is printed."""
        return self._last is not None and bool(self._last.steps) and min(self._last.steps.values()) >= 0

    def look(self, now: float, signs: Signs) -> bool:
        """Whether samples are to be taken now."""
        last, self._last = self._last, signs
        sign = _last_sign(last, signs, now, steps_count=self.counts_steps) if last else None
        if sign is not None and sign > self.last_sign:
            self.note_sign(sign)
        quiet = now - self.last_sign
        suspicious = quiet >= self.timeout
        if suspicious:
            self.deadline = now + (REST if self.idle else SAMPLES) * self.timeout
        else:
            self.deadline = now + min(self._rhythm, self.timeout - quiet)
        return suspicious

    def note_sign(self, at: float) -> None:
        """A sign of life; the end of a worker is one, because those that waited for it may go on now."""
        at = max(at, self.last_sign)
        self.longest = max(self.longest, at - self.last_sign)
        self.heard = True
        self.last_sign = at
        self._excused = False
        self.forget_samples()

    def forget_samples(self) -> None:
        """What was seen so far is not a reason for an alarm."""
        self.idle = False
        self._histories.clear()

    def sampled(self, now: float, samples: dict[int, Sample]) -> bool:
        """Whether no rank has made progress for long enough now. Those that have ended do not count."""
        before, self._histories = self._histories, {}
        for worker, sample in samples.items():
            history = [*before.get(worker, []), SampledAt(now, sample)]
            fresh = sum(one.at >= now - LATELY * self.timeout for one in history)
            self._histories[worker] = history[-max(fresh, ENOUGH) :]
        work = self._find_work(now)
        if work:
            self.idle = False
            self._worked_at = now
            self.deadline = now + REST * self.timeout
            if not self._excused:
                self._excused, self.work = True, work
        elif self.idle:
            self._note_changes(now)
        else:
            self.idle = bool(self._histories) and all(map(self._is_long_enough, self._histories.values()))
        return self.idle

    def _find_work(self, now: float) -> str:
        """Of the first worker that has any, after its number."""
        doubts = self.counts_steps and now - self.last_sign > BELIEVED * self.timeout
        found = ""
        for worker, history in self._histories.items():
            work = work_of(history, on_devices=self.on_devices)
            if work and not (doubts and work.endswith(DOUBTFUL)):
                found = found or f"{worker} {work}"
                del history[:-1]
        return found

    def _is_long_enough(self, history: list[SampledAt]) -> bool:
        """Of a time in which no rank has worked: one may have waited for another, and work now in its turn."""
        seconds = history[-1].at - history[0].at
        return len(history) >= ENOUGH and seconds >= STILL * self.timeout * 0.9 and history[0].at > self._worked_at

    def _note_changes(self, now: float) -> None:
        """Rare samples would take long to show work. A rank that is elsewhere, at two of them, may be at work."""
        changed = max(map(is_elsewhere, self._histories.values()), default=0)
        if changed:
            self.deadline = now + SAMPLES * self.timeout
        if changed > 1:
            self.idle = False
            for history in self._histories.values():
                del history[:-1]


def _last_sign(last: Signs, signs: Signs, now: float, *, steps_count: bool) -> float | None:
    """When it was given, if there is a new one."""
    if steps_count:
        advanced = [worker for worker, step in signs.steps.items() if step != last.steps.get(worker)]
        return max((signs.beats[worker] for worker in advanced), default=None)
    beats = [at for worker, at in signs.beats.items() if at > last.beats.get(worker, 0.0)]
    return now if signs.printed != last.printed else max(beats, default=None)
