"""Which steps of a state are sent to another node, or written: all ranks must choose the same ones.

Ranks do not agree on them. Each sends multiples of a power of two, which it finds from its own pace. If two ranks find
different powers, the multiples of the larger one are multiples of the smaller one as well. Workers keep the last two.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

INTERVAL = 5.0  # seconds
MEASURED = 2.0  # seconds of steps from which the pace is found
NONE = -1


class StrideChoice:
    """`interval`: seconds between two states that are sent or written; it is at least half of that."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval
        self.stride = 0  # 0: not known yet
        self._first: tuple[int, float] | None = None

    def note(self, newest: int, now: float) -> int:
        """Note the newest step. Returns the stride."""
        if self._first is None:
            self._first = newest, now
        steps, seconds = newest - self._first[0], now - self._first[1]
        if not self.stride and steps > 0 and seconds >= MEASURED:
            wanted = steps / seconds * self._interval
            self.stride = 1
            while self.stride * 2 <= wanted:
                self.stride *= 2
        return self.stride

    def double(self) -> None:
        """A state was overwritten before it had been sent: send fewer."""
        self.stride *= 2

    def newest(self, steps: Iterable[int]) -> int:
        return max((step for step in steps if self.stride and step % self.stride == 0), default=NONE)
