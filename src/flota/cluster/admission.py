"""Who takes part: of all records those with a seat to be had, and why the others are turned away. Pure."""

from __future__ import annotations

from flota.cluster.job_state import GATHERING, JobState, Refused
from flota.cluster.node_record import DEAD, LEAVING, Present
from flota.cluster.terms import Terms, disagreement, no_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

GHOST = 1.0  # seconds beyond a lease after which a record is surely no dead node's


class Admission:
    """`deadline`: when to ask again though nothing has changed."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.ghostly = terms.lease + GHOST
        self.deadline: float | None = None
        self._first_seen: dict[str, float] = {}

    def admit(
        self, records: list[Present], job_state: JobState, gone: Collection[str], now: float, *, trusting: bool
    ) -> tuple[list[Present], dict[str, Refused]]:
        """Those who take part, and all who were turned away. Who sat in the round comes before who came later."""
        taken: list[Present] = []
        holders: dict[int, str] = {}
        self.deadline = None
        here = {one.node for one in records}
        self._first_seen = {node: since for node, since in self._first_seen.items() if node in here}
        refused = {node: why for node, why in job_state.refused.items() if node in here}
        seated = {row.node for row in job_state.seats}
        for one in sorted(records, key=lambda one: (one.node not in seated, one.came)):
            if one.node in refused or one.node in gone or one.record.state in (LEAVING, DEAD):
                continue
            since = self._first_seen.setdefault(one.node, now)
            why = disagreement(one.record, self.terms)
            if not why:
                why = no_room(one.record, holders, len(taken), self.terms)
                # The one in its way may be its own earlier life, of which the store does not know yet that it is dead.
                ghostly = why and (not trusting or _may_hold_a_ghost(taken, one, job_state))
                if ghostly and now < since + self.ghostly:
                    self._ask_again(since + self.ghostly)
                    continue
            if why:
                refused[one.node] = Refused(one.record.host, why)
            else:
                taken.append(one)
                if one.record.rank >= 0:
                    holders[one.record.rank] = one.record.host
        return taken, refused

    def _ask_again(self, at: float) -> None:
        self.deadline = at if self.deadline is None else min(self.deadline, at)


def _may_hold_a_ghost(taken: list[Present], one: Present, job_state: JobState) -> bool:
    """Whether one of those in its way may be dead, of which the store does not know yet: an earlier life on its own
    host, one of two on a host, or one that has not answered the last job_state."""
    hosts = [other.record.host for other in taken]
    silent = job_state.phase == GATHERING and any(other.record.round < job_state.round for other in taken)
    return one.record.host in hosts or len(set(hosts)) < len(hosts) or silent
