"""Adds up where the time of this worker goes: before the first step, in steps, and in phases that the script marks.

host/heartbeat_page.py describes the layout of the page; ledger/page.py decodes what is packed here.
"""

from __future__ import annotations

from struct import pack

# Times of the first write, the first step and the last step; seconds in steps, and in phases before the first step;
# time of the last step, or begin or end of a phase; seconds in steps at the last complete checkpoint; the first step,
# and that of this checkpoint; the number of the open phase.
TIMES = "=dddddddqqh"
NO_STEP = -1
NO_PHASE = -1
CHECKPOINT = "checkpoint"
MOST_PHASES = 16
OTHER = "other"  # all phases beyond these
LONGEST_PHASE = 32  # bytes of a name


class WorkTimes:
    def __init__(self) -> None:
        self.opened = self.first_at = self.stepped_at = 0.0
        self.first_step = self.step = self.saved_step = NO_STEP
        self.step_seconds = self.saved_seconds = 0.0
        self.phases: dict[str, float] = {}  # seconds by name
        self.in_phases = self.before_steps = self.at_last_step = 0.0  # seconds in all phases: now, and at these steps
        self.open: list[str] = []  # the innermost phase last
        self.marked_at = 0.0  # the innermost phase is counted until then
        self._packed_phases = b""

    def on_step(self, step: int, now: float) -> None:
        self._count_phase(now)
        if not self.first_at:
            self.first_at, self.first_step, self.before_steps = now, step, self.in_phases
        else:
            self.step_seconds = self._seconds_until(now)
        self.step, self.stepped_at, self.at_last_step = step, now, self.in_phases

    def _seconds_until(self, now: float) -> float:
        """Seconds in steps, the current one included."""
        return self.step_seconds + (now - self.stepped_at) - (self.in_phases - self.at_last_step)

    def enter(self, name: str, now: float) -> int:
        """Begin a phase: until it ends, time is not counted for the phase or step around it. Returns its depth."""
        self._count_phase(now)
        name = name.encode(errors="replace")[:LONGEST_PHASE].decode(errors="ignore")
        if name not in self.phases:
            name = name if len(self.phases) < MOST_PHASES - 1 else OTHER
            self.phases.setdefault(name, 0.0)
            self._pack_phases()
        self.open.append(name)
        return len(self.open) - 1

    def leave(self, depth: int, now: float, *, complete: bool) -> None:
        """End a phase, and phases inside it that were not ended. `complete`: without an exception."""
        if depth >= len(self.open):
            return
        self._count_phase(now)
        if complete and self.open[depth] == CHECKPOINT:
            self.saved_step = self.step
            self.saved_seconds = self._seconds_until(now) if self.first_at else 0.0
        del self.open[depth:]

    def _count_phase(self, now: float) -> None:
        if self.open:
            self.phases[self.open[-1]] += now - self.marked_at
            self.in_phases += now - self.marked_at
            self._pack_phases()
        self.marked_at = now

    def _pack_phases(self) -> None:
        names = [(name.encode(), seconds) for name, seconds in self.phases.items()]
        self._packed_phases = b"".join(bytes((len(name),)) + name + pack("=d", seconds) for name, seconds in names)

    def pack(self) -> bytes:
        times = self.opened, self.first_at, self.stepped_at, self.step_seconds, self.before_steps
        phase = list(self.phases).index(self.open[-1]) if self.open else NO_PHASE
        rest = self.marked_at, self.saved_seconds, self.first_step, self.saved_step, phase
        return pack(TIMES, *times, *rest) + self._packed_phases
