"""Whether a store answers: since when it does not, and from when on what it shows can be trusted. Pure."""

from __future__ import annotations

GAP = 0.5  # of the lease: after such a gap, what has vanished may only have missed its renewal


class Reachability:
    def __init__(self, ttl: int) -> None:
        self.answered_at: float | None = None
        self.silent_since: float | None = None  # when the first request was sent that it has not answered since
        self.trusted_from = 0.0
        self.trouble = ""  # why the last request was lost
        self._ttl = ttl

    def record_answer(self, now: float) -> None:
        if self.answered_at is not None and now - self.answered_at > GAP * self._ttl:
            self.suspend_trust(now)
        self.answered_at = now
        self.silent_since = None

    def record_loss(self, why: str, sent_at: float) -> None:
        self.silent_since = sent_at if self.silent_since is None else self.silent_since
        self.trouble = why

    def suspend_trust(self, now: float) -> None:
        """Other nodes may have lost their leases as well: they get time to come back."""
        self.trusted_from = now + self._ttl
