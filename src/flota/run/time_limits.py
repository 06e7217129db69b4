"""The two time limits of a job: `--stop_before` an end that a platform has set, and `--timeout` after its start."""

from __future__ import annotations

import time

from flota.humanize import limit_in_words
from flota.job.nodes import ALLOCATION, WHOLE_JOB
from flota.supervise.grace_period import SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch


class TimeLimits:
    """`timed_out`: the --timeout that stopped the job here, as in a flag."""

    def __init__(self, node: NodeWatch) -> None:
        self._node = node
        stop_at = node.spec.stop_at
        self._stop_at = time.monotonic() + stop_at - time.time() if stop_at is not None else None
        self._timeout_at: float | None = None  # when --timeout has passed; known when the first round begins
        self.timed_out = ""

    @property
    def deadline(self) -> float | None:
        return min((at for at in (self._stop_at, self._timeout_at) if at is not None), default=None)

    def begin_round(self, elapsed: float) -> None:
        """`elapsed`: seconds since the first round began. Of several estimates the earliest counts: a coordinator that
        has taken over may not know the whole time."""
        timeout = self._node.spec.timeout
        if timeout is not None and not self.timed_out:
            ends_at = time.monotonic() + timeout - elapsed
            self._timeout_at = ends_at if self._timeout_at is None else min(self._timeout_at, ends_at)

    def on_time(self, now: float) -> None:
        if self._stop_at is not None and now >= self._stop_at:
            self._stop_at = None
            self._node.console.say("INFO", "the time limit is near (--stop_before): stopping as after SIGTERM")
            self._node.begin_stop("SIGTERM", SIGTERM, ALLOCATION)
        if self._timeout_at is not None and now >= self._timeout_at:
            self._timeout_at = None
            if not self._node.stopped_by:
                self.timed_out = limit_in_words(self._node.spec.timeout or 0.0)
                self._node.begin_stop(f"--timeout {self.timed_out}", SIGTERM, WHOLE_JOB)
