"""Reads the steps of this node's ranks for the status line, where one is shown."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch
    from flota.run.progress import StepPace

PERIOD = 0.5  # seconds between two updates
FIRST, LAST = 1.0, 60.0  # seconds between two looks for steps, if no rank reports any


class ProgressWatch:
    def __init__(self, node: NodeWatch) -> None:
        self._node = node
        self._pace: StepPace | None = None  # of this round, once ranks report steps
        self._wait = FIRST
        self.deadline: float | None = None

    def begin_round(self) -> None:
        self._pace = None
        if self._node.console.shows_status:
            self.deadline, self._wait = time.monotonic() + FIRST, FIRST

    def on_time(self, now: float) -> None:
        """Show the steps. While no rank reports any, look for them less and less often."""
        if self.deadline is None or now < self.deadline:
            return
        from flota.run.progress import StepPace, progress_in_words, with_steps

        node = self._node
        beats = with_steps([node.channel.read(worker) for worker in sorted(node.working())])
        if beats:
            self._pace = self._pace or StepPace()
            self._pace.add((beat.at, beat.step) for beat in beats)
            node.console.show_status(progress_in_words(beats, self._pace.per_second, node.started.roster.attempt))
        self._wait = PERIOD if beats else min(self._wait * 2, LAST)
        self.deadline = now + self._wait
