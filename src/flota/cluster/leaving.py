"""Nodes of a round that were asked to leave, and whether the job continues without them. Pure."""

from collections.abc import Collection

from flota.cluster.node_record import LEAVING, Present
from flota.cluster.terms import Terms

SIGTERM = 15
LEAVE_TOGETHER = 1.0  # seconds in which other nodes may get the same SIGTERM: a scheduler signals all of them


class LeavingNodes:
    """`nodes`: those that were asked to leave, with their records, in the order in which they were seen."""

    def __init__(self) -> None:
        self.nodes: dict[str, Present] = {}
        self.complete_at = 0.0  # when all nodes that leave together are known

    def note(self, records: list[Present], seated: Collection[str], now: float) -> None:
        """Add the leaving nodes that have a seat. A node without a seat may leave at any time."""
        self.complete_at = self.complete_at if self.nodes else now + LEAVE_TOGETHER
        self.nodes |= {one.node: one for one in records if one.record.state == LEAVING and one.node in seated}

    def should_end_job(self, terms: Terms, staying: int) -> bool:
        """Whether the job ends with them: it is not elastic, too few nodes stay, one serves the store, or it was
        Ctrl-C, which is for all nodes."""
        records = [one.record for one in self.nodes.values()]
        for_all = any(record.signal != SIGTERM or record.serves for record in records)
        return not terms.elastic or for_all or staying < terms.least

    @property
    def can_stop(self) -> bool:
        """Whether their workers can save and exit on their own."""
        return all(one.record.can_stop for one in self.nodes.values())

    @property
    def signal(self) -> int:
        return next(iter(self.nodes.values())).record.signal

    @property
    def hosts(self) -> list[str]:
        return [one.record.host for one in self.nodes.values()]
