"""Slow ranks of a job of several nodes: what a node reports of its ranks' steps, and which ranks stand out. Pure."""

from __future__ import annotations

from flota.stragglers.detector import PERIOD, SlowRank, StepTime, Stragglers, is_step_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.stragglers.detector import Who

WORTH_REPORTING = 0.1  # of what was reported before: a thousand nodes must not write at every small change


def reported_steps(before: tuple[StepTime, ...], seconds: Mapping[Who, float]) -> tuple[StepTime, ...]:
    """What a node record says of its ranks' steps: as before, while not much has changed."""
    rows = tuple(StepTime(rank, float(f"{took:.3g}"), role) for (role, rank), took in seconds.items())
    rows = tuple(row for row in rows if is_step_time(row))
    known = {(row.role, row.rank): row.seconds for row in before}
    same = len(rows) == len(known) and all(
        abs(row.seconds - known.get((row.role, row.rank), 0.0)) <= WORTH_REPORTING * row.seconds for row in rows
    )
    return before if same else rows


class SlowRankWatch:
    """Which of a round's ranks are slow. `deadline`: when to look again though nothing has changed."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._round = -1
        self._stragglers = Stragglers()

    def look(
        self,
        round_number: int,
        known: tuple[SlowRank, ...],
        steps: list[tuple[str, tuple[StepTime, ...]]],
        now: float,
    ) -> tuple[SlowRank, ...]:
        """`steps`: hosts and their ranks' step times. Those that have become slow, without those that have
        recovered.
        """
        if round_number != self._round:
            self._round, self.deadline = round_number, None
            self._stragglers = Stragglers((row.role, row.rank) for row in known)
        if self.deadline is not None and now < self.deadline:
            return known
        hosts = {(row.role, row.rank): host for host, rows in steps for row in rows}
        self.deadline = now + PERIOD if hosts else None
        seconds = {(row.role, row.rank): row.seconds for _, rows in steps for row in rows}
        slow = {(row.role, row.rank): row for row in known}
        for one in self._stragglers.look(now, seconds):
            who = one.role, one.rank
            slow.pop(who, None)
            if not one.recovered:
                slow[who] = SlowRank(one.rank, hosts[who], round(one.factor, 2), one.role)
        return tuple(slow.values())
