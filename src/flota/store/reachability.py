"""How well a store is heard: since when it is silent, and from when on what it shows can be believed. Pure."""

from __future__ import annotations

GAP = 0.5  # of the lease: after such a silence, what has vanished may only have missed its renewal


class Contact:
    def __init__(self, ttl: int) -> None:
        self.heard_at: float | None = None
        self.silent_since: float | None = None  # when the first question was asked that it has not answered since
        self.steady_from = 0.0
        self.trouble = ""  # why the last question was lost
        self._ttl = ttl

    def heard(self, now: float) -> None:
        if self.heard_at is not None and now - self.heard_at > GAP * self._ttl:
            self.distrust(now)
        self.heard_at = now
        self.silent_since = None

    def missed(self, why: str, asked: float) -> None:
        self.silent_since = asked if self.silent_since is None else self.silent_since
        self.trouble = why

    def distrust(self, now: float) -> None:
        """Others may have lost their leases too: they get time to come back."""
        self.steady_from = now + self._ttl
