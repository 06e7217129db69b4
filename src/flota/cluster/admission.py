"""Which nodes take part in the job, and why the others are refused. Pure."""

from collections.abc import Collection

from flota.cluster.job_state import GATHERING, JobState, Refused
from flota.cluster.node_record import DEAD, LEAVING, NodeRecord, Present
from flota.cluster.terms import Terms, disagreement

STALE = 1.0  # seconds: a record that outlives a lease by this much is not that of a dead node


class Admission:
    """`deadline`: when to decide again even if nothing changes."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.longest_stale = terms.lease + STALE
        self.deadline: float | None = None
        self._first_seen: dict[str, float] = {}
        self._began: float | None = None

    def clock_offsets(self, present: list[Present], epoch: float) -> dict[str, float]:
        """By host: the seconds by which its clock differs from this node's, `epoch` seconds after the monotonic clock.
        Records that were there first may be old: of those only clocks that are ahead are known."""
        offsets = {}
        for one in present:
            seen = self._first_seen[one.node]
            offset = one.record.joined - epoch - seen
            if one.record.joined and (offset > 0 or seen != self._began):
                offsets[one.record.host] = offset
        return offsets

    def admit(
        self, records: list[Present], job_state: JobState, gone: Collection[str], now: float, *, trusting: bool
    ) -> tuple[list[Present], dict[str, Refused]]:
        """The nodes that take part, and all that were refused. Nodes with a seat have precedence."""
        taken: list[Present] = []
        holders: dict[int, str] = {}  # hosts by explicit --rank
        waits: list[float] = []
        self._began = now if self._began is None else self._began
        self._first_seen = {one.node: self._first_seen.get(one.node, now) for one in records}
        refused = {node: why for node, why in job_state.refused.items() if node in self._first_seen}
        seated = {row.node for row in job_state.seats}
        for one in sorted(records, key=lambda one: (one.node not in seated, one.created)):
            if one.node in refused or one.node in gone or one.record.state in (LEAVING, DEAD):
                continue
            why = disagreement(one.record, self.terms)
            if not why and (why := no_room(one.record, holders, len(taken), self.terms)):
                stale_until = self._first_seen[one.node] + self.longest_stale
                if now < stale_until and (not trusting or _may_be_stale(taken, one, job_state)):
                    waits.append(stale_until)
                    continue
            if why:
                refused[one.node] = Refused(one.record.host, why)
            else:
                taken.append(one)
                holders |= {one.record.rank: one.record.host} if one.record.rank >= 0 else {}
        self.deadline = min(waits, default=None)
        return taken, refused


def no_room(record: NodeRecord, holders: dict[int, str], taken: int, terms: Terms) -> str:
    """Why there is no seat left for this node; empty if there is one."""
    if record.rank in holders:
        return f"rank {record.rank} is taken by {holders[record.rank]}"
    spares = f" and {terms.spares} spare{'s' * (terms.spares > 1)}" if terms.spares else ""
    return f"the job already has all {terms.most} nodes{spares}" if taken >= terms.most + terms.spares else ""


def _may_be_stale(taken: list[Present], one: Present, job_state: JobState) -> bool:
    """Whether a node in `taken` may be dead while its record is still in the store: an earlier process on the same
    host, one of two on another host, or one that has not followed the last job state."""
    hosts = [other.record.host for other in taken]
    silent = job_state.phase == GATHERING and any(other.record.round < job_state.round for other in taken)
    return one.record.host in hosts or len(set(hosts)) < len(hosts) or silent
