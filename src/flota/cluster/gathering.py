"""When the nodes that have joined may start the next round, and what users read while it waits. Pure."""

from flota.cluster.node_record import READY, Present
from flota.cluster.seating import lacks_a_role
from flota.cluster.terms import Terms, count_of
from flota.humanize import list_in_words, were_in_words
from flota.job.roster import Seat

FIRST_MESSAGE, NEXT_MESSAGE = 2.0, 30.0  # seconds until users read who is missing, and read it again


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
        self.gives_up_at = now + self.terms.join_timeout
        self._next_message = now + FIRST_MESSAGE
        self._may_begin_at = max(self._may_begin_at, now + delay)

    def note(self, present: list[Present], now: float) -> None:
        members = {one.node for one in present}
        if members != self.members:
            self.members = members
            self._changed_at = now

    def may_start(self, present: list[Present], before: tuple[Seat, ...], round_number: int, now: float) -> bool:
        """At MAX at once; from MIN on when no node has come or gone for the elastic timeout."""
        self.deadline = None
        if _late(present, round_number) or lacks_a_role(present, before) or len(present) < self.terms.least:
            return False
        settled = self._changed_at + (0.0 if len(present) == self.terms.most else self.terms.elastic_timeout)
        starts_at = max(self._may_begin_at, settled)
        self.deadline = starts_at if now < starts_at else None
        return now >= starts_at

    def message(self, present: list[Present], round_number: int, now: float) -> str:
        """Which nodes the job waits for, and for how long, from time to time; empty: nothing new."""
        words = ""
        if now >= self._next_message:
            self._next_message = now + NEXT_MESSAGE
            words = missing_in_words(present, self.terms)
            if len(present) < self.terms.least:
                words += f"; gives up in {self.gives_up_at - now:.0f} s"
            elif late := _late(present, round_number):
                words += f"; {were_in_words(sorted(late))} not ready yet"
            else:
                begins = max(0.0, self._changed_at + self.terms.elastic_timeout - now)
                words += f"; these begin in {begins:.0f} s unless others come"
        times = (self.deadline, self._next_message, self.gives_up_at)
        self.deadline = min(time for time in times if time is not None)
        return words


def _late(present: list[Present], round_number: int) -> list[str]:
    ready = READY, round_number
    return [one.record.host for one in present if (one.record.state, one.record.round) != ready]


def missing_in_words(present: list[Present], terms: Terms) -> str:
    """Which nodes have joined and which have not, by the best name there is for each."""
    joined = f"{len(present)} of {count_of(terms.least, terms.most)} nodes: {hosts_in_words(present)}"
    addresses, ranks = [one.record.address for one in present], [one.record.rank for one in present]
    what, missing = "", [host for host in terms.hosts if host not in addresses]
    if not terms.hosts and min(ranks, default=-1) >= 0:
        what, missing = "rank ", [str(rank) for rank in range(terms.most) if rank not in ranks]
    return f"{joined}; missing: {what}{list_in_words(missing)}" if missing else joined


def hosts_in_words(present: list[Present]) -> str:
    return list_in_words(sorted(one.record.host for one in present))
