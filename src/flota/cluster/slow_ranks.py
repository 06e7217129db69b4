"""Slow ranks of a job on many machines: what nodes tell of their ranks' steps, and which ranks stand out. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster.job_state import JobState, SlowRow
from flota.cluster.node_record import NodeRecord, Present, StepRow, is_step
from flota.stragglers.detector import PERIOD, Stragglers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.stragglers.detector import Who

WORTH_TELLING = 0.1  # of what was told before: a thousand nodes must not write whenever a step takes a little longer


def told_steps(record: NodeRecord, seconds: Mapping[Who, float]) -> tuple[StepRow, ...]:
    """What a record says of its ranks' steps: as before, while not much has changed."""
    rows = tuple(StepRow(rank, float(f"{took:.3g}"), role) for (role, rank), took in seconds.items() if is_step(took))
    before = {(row.role, row.rank): row.seconds for row in record.steps}
    same = len(rows) == len(before) and all(
        abs(row.seconds - before.get((row.role, row.rank), 0.0)) <= WORTH_TELLING * row.seconds for row in rows
    )
    return record.steps if same else rows


class Pace:
    """Who of a round's ranks is slow. `deadline`: when to ask again though nothing has changed."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._round = -1
        self._stragglers = Stragglers()

    def look(self, job_state: JobState, of_round: list[Present], now: float) -> JobState:
        """With whoever has become slow since the last one, and without whoever has recovered."""
        if job_state.round != self._round:
            self._round, self.deadline = job_state.round, None
            self._stragglers = Stragglers((row.role, row.rank) for row in job_state.slow)
        if self.deadline is not None and now < self.deadline:
            return job_state
        records = [one.record for one in of_round if one.record.steps]
        self.deadline = now + PERIOD if records else None
        hosts = {(row.role, row.rank): record.host for record in records for row in record.steps}
        seconds = {(row.role, row.rank): row.seconds for record in records for row in record.steps}
        slow = {(row.role, row.rank): row for row in job_state.slow}
        for one in self._stragglers.look(now, seconds):
            who = one.role, one.rank
            slow.pop(who, None)
            if not one.recovered:
                slow[who] = SlowRow(one.rank, hosts[who], round(one.factor, 2), one.role)
        rows = tuple(slow.values())
        return replace(job_state, slow=rows) if rows != job_state.slow else job_state
