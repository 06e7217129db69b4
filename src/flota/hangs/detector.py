"""When a job hangs: no rank has said anything for as long as the user allows, and none is at work. Decides; never
looks, waits or reads the clock. Pure.
"""

from __future__ import annotations

from flota.hangs.activity import DOUBTFUL, Seen, work_of
from flota.hangs.stack import Sample
from flota.hangs.threads import looks_elsewhere
from flota.job.spec import LEARNT
from flota.values import NamedTuple

START, FLOOR, TIMES = 1800.0, 120.0, 3.0  # of `auto`: until anything is known, at the least, of the longest quiet time
ALIVE = 1 / 10  # of the timeout: between looks at what ranks say
STILL = 0.3  # of it, after it: while samples are taken, which cost much, all ranks must stand still
SAMPLES = 1 / 20  # of it: between them
ENOUGH = 6  # of them
LATELY = 0.35  # of it: older samples are judged no more, unless there are too few; they tell of another time
REST = 1 / 4  # of it: between samples while there is work, or while only other nodes can have any
BELIEVED = 5  # timeouts without a step, in which doubtful work is work


class Signs(NamedTuple):
    """What the working ranks of this node have said: by worker its step (-1: none told) and when it last beat; and how
    much all have printed."""

    steps: dict[int, int]
    beats: dict[int, float]
    printed: int


class Hangs:
    """This node's part. `deadline`: when to look next; `stands`: all of its ranks have stood still for the timeout."""

    def __init__(self, wish: float, now: float, *, on_devices: bool = False) -> None:
        """`wish`: the user's timeout, or LEARNT for one that keeps to the job's rhythm."""
        self.wish = wish
        self.on_devices = on_devices
        self.longest = 0.0  # quiet time that ended by itself
        self.heard = False
        self.life_at = now
        self.stands = False
        self.work = ""  # why a quiet job was not taken for a hang, once for each quiet time
        self.deadline = now + self._rhythm
        self._last: Signs | None = None
        self._seen: dict[int, list[Seen]] = {}
        self._worked_at = now
        self._excused = False

    @property
    def timeout(self) -> float:
        if self.wish != LEARNT:
            return self.wish
        return max(FLOOR, TIMES * self.longest) if self.heard else START

    @property
    def _rhythm(self) -> float:
        """Between looks at what ranks say: silence is known no better than by it, and a long one would be learnt."""
        learns = self.wish == LEARNT and not self.heard
        return ALIVE * (FLOOR if learns else self.timeout)

    @property
    def tells_steps(self) -> bool:
        """Then it is steps that count, whatever else is printed."""
        return self._last is not None and bool(self._last.steps) and min(self._last.steps.values()) >= 0

    def look(self, now: float, signs: Signs) -> bool:
        """Whether samples are to be taken now."""
        last, self._last = self._last, signs
        lived_at = _life(last, signs, now, steps_count=self.tells_steps) if last else None
        if lived_at is not None and lived_at > self.life_at:
            self._note_life(lived_at)
        quiet = now - self.life_at
        suspicious = quiet >= self.timeout
        if suspicious:
            self.deadline = now + (REST if self.stands else SAMPLES) * self.timeout
        else:
            self.deadline = now + min(self._rhythm, self.timeout - quiet)
        return suspicious

    def worker_ended(self, at: float) -> None:
        """Whoever waited for it may go on now."""
        self._note_life(max(at, self.life_at))

    def _note_life(self, at: float) -> None:
        self.longest = max(self.longest, at - self.life_at)
        self.heard = True
        self.life_at = at
        self._excused = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """What was seen so far is no reason for an alarm."""
        self.stands = False
        self._seen.clear()

    def sampled(self, now: float, samples: dict[int, Sample]) -> bool:
        """Whether all ranks have now stood still for long enough. Those that have ended do not count."""
        since = now - LATELY * self.timeout
        self._seen = {
            worker: _lately([*self._seen.get(worker, []), Seen(now, sample)], since)
            for worker, sample in samples.items()
        }
        works = self._find_work(now)
        if works:
            self.stands = False
            self._worked_at = now
            self.deadline = now + REST * self.timeout
            if not self._excused:
                self._excused, self.work = True, works
        elif self.stands:
            self._mind_changes(now)
        else:
            self.stands = bool(self._seen) and all(map(self._is_long_enough, self._seen.values()))
        return self.stands

    def _find_work(self, now: float) -> str:
        works = ""
        for worker, history in self._seen.items():
            work = work_of(history, on_devices=self.on_devices) if len(history) > 1 else ""
            if work and not self._is_doubted(work, now):
                works = works or f"{worker} {work}"
                del history[:-1]
        return works

    def _is_long_enough(self, history: list[Seen]) -> bool:
        """Of a time in which nobody has worked: one may have waited for another, and work now in its turn."""
        seconds = history[-1].at - history[0].at
        return len(history) >= ENOUGH and seconds >= STILL * self.timeout * 0.9 and history[0].at > self._worked_at

    def _mind_changes(self, now: float) -> None:
        """Rare samples would take long to show work. A rank that is elsewhere, at two of them, may be at work."""
        news = max(map(looks_elsewhere, self._seen.values()), default=0)
        if news:
            self.deadline = now + SAMPLES * self.timeout
        if news > 1:
            self.stands = False
            for history in self._seen.values():
                del history[:-1]

    def _is_doubted(self, work: str, now: float) -> bool:
        return self.tells_steps and work.endswith(DOUBTFUL) and now - self.life_at > BELIEVED * self.timeout


def _life(last: Signs, signs: Signs, now: float, *, steps_count: bool) -> float | None:
    """When the last sign of life was given, if there is a new one."""
    if steps_count:
        advanced = [worker for worker, step in signs.steps.items() if step != last.steps.get(worker)]
        return max((signs.beats[worker] for worker in advanced), default=None)
    beats = [at for worker, at in signs.beats.items() if at > last.beats.get(worker, 0.0)]
    return now if signs.printed != last.printed else max(beats, default=None)


def _lately(history: list[Seen], since: float) -> list[Seen]:
    fresh = sum(one.at >= since for one in history)
    return history[-max(fresh, ENOUGH) :]
