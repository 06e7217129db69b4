"""Nodes of a round that were asked to leave, and whether the job continues without them. Pure."""

from collections.abc import Collection

from flota.cluster.node_record import LEAVING, Present
from flota.cluster.terms import Terms
from flota.cluster.view import View
from flota.humanize import were_in_words
from flota.job.nodes import ALLOCATION, WHOLE_JOB
from flota.job.report import STOPPED, JobEnding, after_timeout

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

    def should_end_job(self, terms: Terms, view: View, seated: Collection[str]) -> bool:
        """Whether the job ends with them: no other node may take their seats and too few nodes stay, one serves the
        store, or what asked them was for the whole job, as Ctrl-C, flota stop and --timeout are."""
        staying = self._count_staying(view, seated)
        records = [one.record for one in self.nodes.values()]
        scopes = {record.scope for record in records}
        if WHOLE_JOB in scopes or any(record.signal != SIGTERM or record.serves for record in records):
            return True
        if terms.elastic:
            return staying < terms.least
        replaced = staying if terms.policy.enabled else terms.spares and staying >= terms.least
        return not replaced or ALLOCATION in scopes

    def _count_staying(self, view: View, seated: Collection[str]) -> int:
        """A node whose record is missing stays until it counts as lost."""
        lost = {row.node for row in view.lost}
        return len({*seated} - self.nodes.keys() - lost | {one.node for one in view.present})

    @property
    def can_stop(self) -> bool:
        """Whether their workers can save and exit on their own."""
        return all(one.record.can_stop for one in self.nodes.values())

    @property
    def ending(self) -> JobEnding:
        """How the job ends if it ends with them."""
        signal = next(iter(self.nodes.values())).record.signal
        return self.with_cause(JobEnding(STOPPED, 128 + signal, signal, f"{were_in_words(self.hosts)} asked to stop"))

    def with_cause(self, ending: JobEnding) -> JobEnding:
        """The ending, with what asked them to leave, which may be a --timeout."""
        stopped_by = next((one.record.stopped_by for one in self.nodes.values()), "")
        ending = ending._replace(stopped_by=stopped_by) if ending.kind == STOPPED else ending
        limit = next((one.record.timed_out for one in self.nodes.values() if one.record.timed_out), "")
        return after_timeout(ending, limit) if limit else ending

    @property
    def hosts(self) -> list[str]:
        return [one.record.host for one in self.nodes.values()]
