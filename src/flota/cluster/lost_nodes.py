"""Which nodes of a round are lost, by records that are gone or marked dead by a shepherd; whether an inherited job
state is of a running job; and which records are ahead of the coordinator. Pure.
"""

from collections.abc import Collection

from msgspec.structs import replace

from flota.cluster.job_state import GATHERING, JobState
from flota.cluster.node_record import DEAD, READY, Present
from flota.cluster.seating import names_for_users
from flota.cluster.terms import Terms
from flota.errors import TRY_AGAIN
from flota.humanize import were_in_words
from flota.job.report import INCOMPLETE, JobEnding
from flota.job.roster import Seat

MAX_MISSED = 1000  # questions that a coordinator can have asked within one lease


class LostNodes:
    """etcd may expire leases that were renewed in time, for example when its leader resumes after a pause. So a node
    has `patience` seconds to write its record again, unless its shepherd has marked it dead.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.deadline: float | None = None  # when to decide again even if nothing changes
        self._missing_since: dict[str, float] = {}
        self._dead: set[str] = set()

    def find(
        self, seats: tuple[Seat, ...], by_node: dict[str, Present], done: Collection[str], now: float
    ) -> list[Seat]:
        """The seats of lost nodes. Nodes that have finished do not count."""
        self._dead.update(node for node, one in by_node.items() if one.record.state == DEAD)
        absent = [row for row in seats if row.node not in by_node or row.node in self._dead]
        missing = [row for row in absent if row.node not in done]
        self._missing_since = {row.node: self._missing_since.get(row.node, now) for row in missing}
        lost_at = {node: since + self.patience for node, since in self._missing_since.items()}
        lost = [row for row in missing if row.node in self._dead or now >= lost_at[row.node]]
        self.deadline = min(lost_at.values()) if missing and not lost else None
        return lost


class InheritedState:
    """The job state that a new coordinator has found in the store. If this node is not part of it, it may be a leftover
    of a dead job: that is known when the leases of its nodes have expired, `lease` seconds from now.
    """

    def __init__(self, found: JobState | None, own: str, now: float, lease: float) -> None:
        is_part = found is None or not found.seats or found.seat_of(own) >= 0 or found.is_spare(own)
        self.deadline = None if is_part else now + lease
        self._round = found.round if found else -1

    def confirm(self, job_state: JobState, blank: JobState, records: list[Present], now: float) -> JobState | None:
        """The job state to continue from; None while that is not known. `blank`: that of a new job."""
        if self.deadline is None:
            return job_state
        seated = {row.node for row in job_state.seats}
        here = [one for one in records if one.node in seated]
        is_followed = any(one.record.round > self._round for one in here)
        if now < self.deadline and not is_followed:
            return None
        self.deadline = None
        if is_followed or any(one.record.state != DEAD for one in here):
            return job_state
        # It belongs to an earlier run, and so do its restarts and refusals.
        return replace(blank, round=job_state.round + 1, asked=job_state.asked)


def take_over(found: JobState) -> JobState:
    """From the last job state of the previous coordinator. It may have asked questions that this node has missed: their
    ids must not be reused. It may also have started this round: a round must not have two rosters."""
    gathers = found.phase == GATHERING
    return replace(found, asked=found.asked + MAX_MISSED, round=found.round + gathers)


def is_ahead(job_state: JobState, one: Present) -> bool:
    """Whether a record is of a round that the coordinator does not know."""
    begun = job_state.phase == GATHERING and one.record.state != READY and one.record.round == job_state.round
    return one.record.round > job_state.round or begun


def ending_after_loss(lost: list[Seat], seats: tuple[Seat, ...], terms: Terms) -> JobEnding:
    """How the job ends after this loss. With exit code 0 it continues: the reason is that of the new round."""
    names = names_for_users(seats)
    reason = f"{were_in_words([names[row.node] for row in lost])} lost"
    goes_on = terms.policy.enabled or terms.elastic or terms.spares
    return JobEnding(INCOMPLETE, 0 if goes_on else TRY_AGAIN, 0, reason)
