"""Ports of seats and node records for tests."""

from __future__ import annotations

from flota.job.roster import Ports


def ports_of(*numbers: int) -> Ports:
    """The ports of the workers, then those of the three masters."""
    texts = [str(number) for number in numbers]
    return Ports(tuple(texts[:-3]), *texts[-3:])
