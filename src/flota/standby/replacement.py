"""When a parked interpreter that has exited is replaced: at once, after growing pauses, at last not at all. Pure."""

from __future__ import annotations

PAUSES = (0.0, 1.0, 10.0, 60.0)  # seconds before each replacement in a row
STEADY = 60.0  # seconds after which an interpreter counts as sound: if it exits later, a new row begins


class Replacements:
    """`in_a_row`: interpreters that have exited, each soon after its start."""

    def __init__(self) -> None:
        self.in_a_row = 0

    def pause(self, lived: float) -> float | None:
        """Return the seconds until an interpreter that lived this long is replaced; None after too many."""
        self.in_a_row = 1 if lived >= STEADY else self.in_a_row + 1
        return PAUSES[self.in_a_row - 1] if self.in_a_row <= len(PAUSES) else None
