"""Who of a round is lost: records that are gone, or that a shepherd has written; and which records are ahead of us.
Pure.
"""

from __future__ import annotations

from flota.cluster.job_state import GATHERING, JobState
from flota.cluster.node_record import DEAD, READY, Present
from flota.job.roster import Seat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class LostNodes:
    """etcd may end leases that were renewed in time, as when its leader comes back from a pause: unless a shepherd has
    said that its node is dead, a node is given `patience` seconds to put its record back.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.deadline: float | None = None  # when to look again though nothing has changed
        self._missing_since: dict[str, float] = {}
        self._dead: set[str] = set()

    def find(
        self, seats: tuple[Seat, ...], by_node: dict[str, Present], done: Collection[str], now: float
    ) -> list[Seat]:
        """Who has finished is not missed."""
        self._dead.update(node for node, one in by_node.items() if one.record.state == DEAD)
        absent = [row for row in seats if row.node not in by_node or row.node in self._dead]
        missing = [row for row in absent if row.node not in done]
        self._missing_since = {row.node: self._missing_since.get(row.node, now) for row in missing}
        believed_at = {node: since + self.patience for node, since in self._missing_since.items()}
        lost = [row for row in missing if row.node in self._dead or now >= believed_at[row.node]]
        self.deadline = min(believed_at.values()) if missing and not lost else None
        return lost


def is_followed(job_state: JobState, records: list[Present], inherited: int) -> bool:
    """Whether a node of the round that was found has gone on to one of ours: then it is a living job's."""
    seated = {row.node for row in job_state.seats}
    return any(one.node in seated and one.record.round > inherited for one in records)


def has_anybody(job_state: JobState, records: list[Present]) -> bool:
    """Whether somebody of the round is left."""
    here = {one.node for one in records if one.record.state != DEAD}
    return any(row.node in here for row in job_state.seats)


def is_ahead(job_state: JobState, one: Present) -> bool:
    """Whether a record speaks of a round of which we have not heard."""
    begun = job_state.phase == GATHERING and one.record.state != READY and one.record.round == job_state.round
    return one.record.round > job_state.round or begun
