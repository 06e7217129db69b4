"""What Ctrl-C means while a submitted job is followed: one detaches, two stop the job, three kill it.

A job that ends with this process cannot be left running: there one Ctrl-C stops the job, and two kill it.
"""

from __future__ import annotations

import signal
import time

from flota.engines.tools import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.engines import Running

SECOND = 3.0  # seconds to wait for a second Ctrl-C before detaching


class Interrupts:
    """Counts Ctrl-C. `detaches` acts on them, and is called regularly."""

    def __init__(self, running: Running, title: str, *, can_detach: bool = True) -> None:
        self._running = running
        self._title = title
        self._count = 0
        self._handled = 0
        self._stops_at = 2 if can_detach else 1
        signal.signal(signal.SIGINT, self._on_interrupt)
        for number in () if can_detach else (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_stop)

    def _on_interrupt(self, *_: object) -> None:
        self._count += 1

    def _on_stop(self, *_: object) -> None:
        self._count = max(self._count, 1)

    def detaches(self) -> bool:
        """Whether to leave the job running and return to the shell."""
        if self._count == 1 < self._stops_at:
            say(f"Ctrl-C again within {SECOND:g} s stops {self._title}; otherwise it keeps running")
            deadline = time.monotonic() + SECOND
            while self._count == 1 and time.monotonic() < deadline:
                time.sleep(0.05)
            if self._count == 1:
                say(f"detached: {self._title} keeps running")
                return True
        if self._count >= self._stops_at > self._handled:
            self._handled = self._stops_at
            say(f"stopping {self._title}; workers may save first; another Ctrl-C kills it")
            self._running.stop()
        elif self._count > self._handled >= self._stops_at:
            self._handled = self._count
            say(f"killing {self._title}")
            self._running.kill()
        return False
