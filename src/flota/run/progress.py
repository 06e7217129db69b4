"""The pace of a job and the time that is left, for all views of it; and the status line of a node:
`step 1,240/5,000  3.1 it/s  loss 0.213  ETA 00:41:10`. Pure.
"""

from __future__ import annotations

from flota.host.channel import NO_STEP
from flota.host.heartbeat_page import Heartbeat
from flota.humanize import counts_in_words
from flota.job.printable import printable

MOST_STEPS = 20  # changes of the step from which the pace is computed
MOST_NUMBERS = 3
LONGEST_NAME = 20
LONGEST_ETA = 1e7  # seconds; more is not plausible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class StepPace:
    """Steps per second, from the last changes of the slowest step."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def add(self, steps: Iterable[tuple[float, int]]) -> None:
        """`steps`: when each rank has reported its last step, and which."""
        at, step = min(steps, key=lambda pair: pair[1], default=(0.0, NO_STEP))
        if step == NO_STEP:
            return
        if self._seen and step < self._seen[-1][1]:
            self._seen.clear()  # the steps are counted from the beginning again
        if not self._seen or step > self._seen[-1][1]:
            self._seen = [*self._seen, (at, step)][-MOST_STEPS:]

    @property
    def per_second(self) -> float:
        """0.0 if it is not known yet."""
        if not self._seen:
            return 0.0
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - began) if now > began else 0.0


def seconds_left(step: int, total: int, pace: float) -> float | None:
    """Until the slowest rank has done all steps; None if that is not known, or not plausible."""
    left = (total - step) / pace if pace > 0 else LONGEST_ETA
    return left if 0 < left < LONGEST_ETA else None


def with_steps(beats: list[Heartbeat]) -> list[Heartbeat]:
    return [beat for beat in beats if beat.step != NO_STEP]


def progress_in_words(beats: list[Heartbeat], pace: float, restarts: int) -> str:
    """`beats`: of the ranks that report steps, the lowest rank first. `pace`: steps per second; 0.0: not known."""
    slowest, fastest = min(beat.step for beat in beats), max(beat.step for beat in beats)
    total = max(beat.total for beat in beats)
    # Ranks are often some steps apart; a difference of less than a second is not worth showing.
    steps = f"{slowest:,}" if fastest <= slowest + 1 + pace else f"{slowest:,}-{fastest:,}"
    parts = [f"step {steps}/{total:,}" if total else f"step {steps}"]
    if pace > 0:
        parts.append(f"{pace:.1f} it/s" if pace >= 1 else f"{1 / pace:.1f} s/it")
    numbers = next((beat.numbers for beat in beats if beat.numbers), {})
    parts += [f"{printable(name, LONGEST_NAME)} {value:.4g}" for name, value in list(numbers.items())[:MOST_NUMBERS]]
    left = seconds_left(slowest, total, pace)
    if left:
        minutes, seconds = divmod(round(left), 60)
        parts.append(f"ETA {minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}")
    if restarts:
        parts.append(counts_in_words({"restart": restarts}))
    return "  ".join(parts)
