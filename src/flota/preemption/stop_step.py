"""At which step workers stop that can end by themselves. Pure."""

from __future__ import annotations

NOW = -1  # a worker that tells no steps
NO_OPINION = -2  # a node without such workers
HASTE = 2.0  # steps may be faster than they were


def agreed_step(steps: list[int], pace: float, lead_time: float) -> int:
    """A step that nobody can have passed before everybody has heard of it, which takes `lead_time` seconds at the most;
    `pace` is the fastest worker's steps a second.
    """
    known = [step for step in steps if step != NO_OPINION]
    if not known or NOW in known:
        return NOW
    return max(known) + 2 + int(HASTE * pace * lead_time)
