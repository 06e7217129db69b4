"""Nodes of a round that were told to go, and what that means for the others. Pure."""

from __future__ import annotations

from flota.cluster.node_record import LEAVING, Present
from flota.cluster.terms import Terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

SIGTERM = 15
LEAVE_TOGETHER = 1.0  # seconds in which others may get the same SIGTERM: a scheduler signals all


class Leavers:
    """`nodes`: all who have said so, with what they said, the first one first."""

    def __init__(self) -> None:
        self.nodes: dict[str, Present] = {}
        self._since = 0.0

    def note(self, records: list[Present], seated: Collection[str], now: float) -> None:
        """Who has no seat may go as it came."""
        leaving = {one.node: one for one in records if one.record.state == LEAVING and one.node in seated}
        self._since = self._since if self.nodes else now
        self.nodes.update(leaving)

    @property
    def complete_at(self) -> float:
        """When all who leave together have said so."""
        return self._since + LEAVE_TOGETHER

    def end_the_job(self, terms: Terms, staying: int) -> bool:
        """Whether the job cannot or shall not go on without them: somebody's Ctrl-C is for all."""
        records = [one.record for one in self.nodes.values()]
        for_all = any(record.signal != SIGTERM or record.serves for record in records)
        return not terms.elastic or for_all or staying < terms.least

    @property
    def can_stop(self) -> bool:
        """Whether their workers can save and stop on their own."""
        return all(one.record.can_stop for one in self.nodes.values())

    @property
    def signal(self) -> int:
        return next(iter(self.nodes.values())).record.signal

    @property
    def hosts(self) -> list[str]:
        return [one.record.host for one in self.nodes.values()]
