"""A port that the user has chosen may still be somebody's for a moment: a restart waits for it."""

from __future__ import annotations

from flota.errors import FlotaError, PortInUse
from flota.run.console import Console

LOOK_AGAIN = 0.1  # seconds between looks whether a port is free: nothing tells of it


class PortWait:
    def __init__(self, console: Console, timeout: float) -> None:
        self._console = console
        self._timeout = timeout
        self._give_up_at: float | None = None

    def next_try(self, error: FlotaError, now: float) -> float | None:
        """When to try once more; None: that would not help, or has not helped for too long."""
        if not isinstance(error, PortInUse):
            return None
        if self._give_up_at is None:
            self._give_up_at = now + self._timeout
            self._console.say("INFO", f"{error.message}; the restart waits for it")
        return now + LOOK_AGAIN if now < self._give_up_at else None

    def end(self) -> None:
        """The port was free."""
        self._give_up_at = None
