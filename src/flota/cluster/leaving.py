"""Nodes of a round that were asked to leave, and what that means for the others. Pure."""

from collections.abc import Collection

from flota.cluster.node_record import LEAVING, Present
from flota.cluster.terms import Terms

SIGTERM = 15
LEAVE_TOGETHER = 1.0  # seconds in which others may get the same SIGTERM: a scheduler signals all


class Leavers:
    """`nodes`: all that were asked to, with their records, the first one first."""

    def __init__(self) -> None:
        self.nodes: dict[str, Present] = {}
        self.complete_at = 0.0  # when all that leave together are known

    def note(self, records: list[Present], seated: Collection[str], now: float) -> None:
        """A node without a seat may leave at any time."""
        self.complete_at = self.complete_at if self.nodes else now + LEAVE_TOGETHER
        self.nodes |= {one.node: one for one in records if one.record.state == LEAVING and one.node in seated}

    def end_the_job(self, terms: Terms, staying: int) -> bool:
        """Whether the job cannot or shall not go on without them: a user's Ctrl-C is for all nodes."""
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
