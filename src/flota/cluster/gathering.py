"""When the nodes that are here may start the next round, and what people hear while it waits. Pure."""

from __future__ import annotations

from flota.cluster.node_record import READY, Present
from flota.cluster.seating import lacks_a_role
from flota.cluster.terms import Terms, prospects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.roster import Seat

FIRST_WORD, NEXT_WORD = 2.0, 30.0  # seconds until people are told who is missing, and told again


class Gathering:
    """`deadline`: when to look again though nothing has changed."""

    def __init__(self, terms: Terms, now: float) -> None:
        self.terms = terms
        self.deadline: float | None = None
        self.members: set[str] = set()
        self._changed_at = now
        self._may_begin_at = now
        self.begin(now)

    def begin(self, now: float, delay: float = 0.0) -> None:
        """For the next round, which may start after so many seconds."""
        self._since = now
        self._next_word = now + FIRST_WORD
        self._may_begin_at = max(self._may_begin_at, now + delay)

    def note(self, present: list[Present], now: float) -> None:
        members = {one.node for one in present}
        if members != self.members:
            self.members = members
            self._changed_at = now

    def may_start(self, present: list[Present], before: tuple[Seat, ...], round_number: int, now: float) -> bool:
        """At MAX at once; from MIN on when no node has come or gone for the elastic timeout."""
        self.deadline = None
        ready = all(is_ready(one, round_number) for one in present) and not lacks_a_role(present, before)
        if not ready or len(present) < self.terms.least:
            return False
        settled = self._changed_at + (0.0 if len(present) == self.terms.most else self.terms.elastic_timeout)
        starts_at = max(self._may_begin_at, settled)
        self.deadline = starts_at if now < starts_at else None
        return now >= starts_at

    @property
    def gives_up_at(self) -> float:
        return self._since + self.terms.join_timeout

    def words(self, present: list[Present], round_number: int, now: float) -> str:
        """Who is missing, from time to time; empty: nothing new to say."""
        said = ""
        if now >= self._next_word:
            self._next_word = now + NEXT_WORD
            late = [one.record.host for one in present if not is_ready(one, round_number)]
            begins = max(0.0, self._changed_at + self.terms.elastic_timeout - now)
            said = prospects(present, self.terms, late, begins, self.gives_up_at - now)
        times = (self.deadline, self._next_word, self.gives_up_at)
        self.deadline = min(time for time in times if time is not None)
        return said


def is_ready(one: Present, round_number: int) -> bool:
    return one.record.state == READY and one.record.round == round_number
