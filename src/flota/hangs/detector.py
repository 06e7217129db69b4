"""Decides whether a job hangs: no rank has shown a sign of life for the timeout, and none is active.

It never reads processes, waits or reads the clock. Pure.
"""

from __future__ import annotations

from flota.hangs.activity import WEAK_EVIDENCE, SampledAt, is_elsewhere, work_of
from flota.hangs.stack_dump import Sample
from flota.job.spec import LEARNT
from flota.values import NamedTuple

# The timeout `auto`: seconds before the first sign of life; seconds at least; and times the longest quiet period.
AUTO_START, AUTO_MIN, AUTO_FACTOR = 1800.0, 120.0, 3.0
# As fractions of the timeout.
CHECK_INTERVAL = 1 / 10  # between checks of what ranks report
IDLE_TIME = 0.3  # after the timeout: samples, which are expensive, must show no progress for so long
SAMPLE_INTERVAL = 1 / 20  # between samples
RECENT = 0.35  # older samples do not count, unless there are too few
REST_INTERVAL = 1 / 4  # between samples while a rank is active, or while all ranks of this node are idle

MIN_SAMPLES = 6
DOUBT_AFTER = 5  # timeouts without a step, after which weak evidence of work does not count


class Signs(NamedTuple):
    """Signs of life of this node's working ranks: the step (-1: none reported) and the time of the last heartbeat, by
    worker; and the size of all output."""

    steps: dict[int, int]
    beats: dict[int, float]
    printed: int


class HangDetector:
    """For one node. `deadline`: when to check next; `idle`: none of its ranks has made progress for the timeout."""

    def __init__(self, setting: float, now: float, *, on_devices: bool = False) -> None:
        """`setting`: the user's timeout, or LEARNT for one that adapts to the job."""
        self.setting = setting
        self.on_devices = on_devices
        self.longest = 0.0  # quiet period that ended with a sign of life
        self.has_signs = False
        self.last_sign = now
        self.idle = False
        self.work = ""  # evidence that a quiet job is not hung, once per quiet period
        self.deadline = now + self._check_interval
        self._last: Signs | None = None
        self._histories: dict[int, list[SampledAt]] = {}
        self._worked_at = now
        self._work_reported = False

    @property
    def timeout(self) -> float:
        if self.setting != LEARNT:
            return self.setting
        return max(AUTO_MIN, AUTO_FACTOR * self.longest) if self.has_signs else AUTO_START

    @property
    def _check_interval(self) -> float:
        """Seconds between checks: the precision of quiet periods, so it is short while a timeout is learnt."""
        learns = self.setting == LEARNT and not self.has_signs
        return CHECK_INTERVAL * (AUTO_MIN if learns else self.timeout)

    @property
    def counts_steps(self) -> bool:
        """Whether all ranks report steps. Then only steps count, not output."""
        return self._last is not None and bool(self._last.steps) and min(self._last.steps.values()) >= 0

    def check(self, now: float, signs: Signs) -> bool:
        """Whether samples are needed now."""
        last, self._last = self._last, signs
        sign = _last_sign(last, signs, now, steps_count=self.counts_steps) if last else None
        if sign is not None and sign > self.last_sign:
            self.note_sign(sign)
        quiet = now - self.last_sign
        suspicious = quiet >= self.timeout
        if suspicious:
            self.deadline = now + (REST_INTERVAL if self.idle else SAMPLE_INTERVAL) * self.timeout
        else:
            self.deadline = now + min(self._check_interval, self.timeout - quiet)
        return suspicious

    def note_sign(self, at: float) -> None:
        """Note a sign of life. The exit of a worker is one, because ranks that waited for it may continue."""
        at = max(at, self.last_sign)
        self.longest = max(self.longest, at - self.last_sign)
        self.has_signs = True
        self.last_sign = at
        self._work_reported = False
        self.forget_samples()

    def forget_samples(self) -> None:
        """Start over with sampling."""
        self.idle = False
        self._histories.clear()

    def sampled(self, now: float, samples: dict[int, Sample]) -> bool:
        """Add samples of the running ranks. Returns whether none has made progress for long enough."""
        before, self._histories = self._histories, {}
        for worker, sample in samples.items():
            history = [*before.get(worker, []), SampledAt(now, sample)]
            fresh = sum(one.at >= now - RECENT * self.timeout for one in history)
            self._histories[worker] = history[-max(fresh, MIN_SAMPLES) :]
        work = self._find_work(now)
        if work:
            self.idle = False
            self._worked_at = now
            self.deadline = now + REST_INTERVAL * self.timeout
            if not self._work_reported:
                self._work_reported, self.work = True, work
        elif self.idle:
            self._note_changes(now)
        else:
            self.idle = bool(self._histories) and all(map(self._is_long_enough, self._histories.values()))
        return self.idle

    def _find_work(self, now: float) -> str:
        """The number of the first active worker, and the evidence; empty if there is none."""
        doubts = self.counts_steps and now - self.last_sign > DOUBT_AFTER * self.timeout
        found = ""
        for worker, history in self._histories.items():
            work = work_of(history, on_devices=self.on_devices)
            if work and not (doubts and work.endswith(WEAK_EVIDENCE)):
                found = found or f"{worker} {work}"
                del history[:-1]
        return found

    def _is_long_enough(self, history: list[SampledAt]) -> bool:
        """Whether there are enough samples since any rank was active: this one may have waited for it."""
        first, last = history[0].at, history[-1].at
        lasts = last - first >= IDLE_TIME * self.timeout * 0.9
        return len(history) >= MIN_SAMPLES and lasts and first > self._worked_at

    def _note_changes(self, now: float) -> None:
        """While samples are rare: if a rank is at a new place, sample more often; if it is twice, it may be active."""
        changed = max(map(is_elsewhere, self._histories.values()), default=0)
        if changed:
            self.deadline = now + SAMPLE_INTERVAL * self.timeout
        if changed > 1:
            self.idle = False
            for history in self._histories.values():
                del history[:-1]


def _last_sign(last: Signs, signs: Signs, now: float, *, steps_count: bool) -> float | None:
    """The time of a new sign of life; None if there is none."""
    if steps_count:
        advanced = [worker for worker, step in signs.steps.items() if step != last.steps.get(worker)]
        return max((signs.beats[worker] for worker in advanced), default=None)
    beats = [at for worker, at in signs.beats.items() if at > last.beats.get(worker, 0.0)]
    return now if signs.printed != last.printed else max(beats, default=None)
