"""When the nodes that have joined start the next round, and what users read while the job waits. Pure."""

from collections import Counter

from flota.cluster.node_record import READY, Present
from flota.cluster.seating import lacks_a_role
from flota.cluster.terms import Terms
from flota.humanize import list_in_words
from flota.job.roster import Seat

FIRST_MESSAGE, NEXT_MESSAGE = 2.0, 30.0  # seconds until the first message, and between later ones
# Seconds to wait for more nodes after a round, at most: no training happens meanwhile, and a node that comes later
# still gets its place, in another round.
LATER_WAIT = 1.0


class Gathering:
    """`deadline`: when to decide again even if nothing changes."""

    def __init__(self, terms: Terms, now: float) -> None:
        self.terms = terms
        self.deadline: float | None = None
        self.members: set[str] = set()
        self._changed_at = now
        self._may_begin_at = now
        self._wait = terms.elastic_timeout
        self.begin(now)

    def begin(self, now: float, delay: float = 0.0) -> None:
        """Begin to gather for the next round, which starts after `delay` seconds at the earliest."""
        self._expects_more = False
        self.gives_up_at = now + self.terms.join_timeout
        self._next_message = now + FIRST_MESSAGE
        self._may_begin_at = max(self._may_begin_at, now + delay)

    def expect_more(self) -> None:
        """A new node has ended the round, and more may follow."""
        self._expects_more = True

    def note(self, present: list[Present], now: float) -> None:
        members = {one.node for one in present}
        if members != self.members:
            self.members = members
            self._changed_at = now

    def may_start(self, present: list[Present], before: tuple[Seat, ...], round_number: int, now: float) -> bool:
        """At once with MAX nodes; with MIN or more when no node has joined or left for the elastic timeout, or after a
        round that ended for another reason than a new node, for LATER_WAIT."""
        self.deadline = None
        later = bool(before) and not self._expects_more
        self._wait = min(self.terms.elastic_timeout, LATER_WAIT) if later else self.terms.elastic_timeout
        if _late(present, round_number) or lacks_a_role(present, before) or len(present) < self.terms.least:
            return False
        settled = self._changed_at + (0.0 if len(present) == self.terms.most else self._wait)
        starts_at = max(self._may_begin_at, settled)
        self.deadline = starts_at if now < starts_at else None
        return now >= starts_at

    def message(self, present: list[Present], round_number: int, now: float) -> str:
        """Which nodes have joined, and what the job waits for. Empty until the next message is due."""
        words = ""
        if now >= self._next_message:
            self._next_message = now + NEXT_MESSAGE
            words = joined_in_words(present, self.terms)
            if not self.terms.elastic:
                words = f"waiting for nodes: {words}"
            if len(present) < self.terms.least:
                words += f"; giving up in {_countdown(self.gives_up_at - now)}"
            elif late := _late(present, round_number):
                words += f"; {list_in_words(sorted(late))} not ready yet"
            elif len(present) < self.terms.most:
                settled = self._changed_at + self._wait
                words += f"; starting in {_countdown(max(0.0, settled - now))} unless more join"
            else:
                words += "; starting soon"
        times = (self.deadline, self._next_message, self.gives_up_at)
        self.deadline = min(time for time in times if time is not None)
        return words


def _late(present: list[Present], round_number: int) -> list[str]:
    ready = READY, round_number
    return [one.record.host for one in present if (one.record.state, one.record.round) != ready]


def joined_in_words(present: list[Present], terms: Terms) -> str:
    """Which nodes have joined, and which are missing: `2 of 3 joined (gpu01, gpu02); missing rank 1`, or for an elastic
    job `1 node joined (need 2, up to 4): gpu01`.
    """
    count, hosts = len(present), hosts_in_words(present)
    joined = f"{count} of {terms.most} joined ({hosts})"
    if terms.elastic:
        joined = f"{count} node{'s' * (count != 1)} joined (need {terms.least}, up to {terms.most}): {hosts}"
    addresses, ranks = [one.record.address for one in present], [one.record.rank for one in present]
    what, missing = "", [host for host in terms.hosts if host not in addresses]
    if not terms.hosts and min(ranks, default=-1) >= 0:
        missing = [str(rank) for rank in range(terms.most) if rank not in ranks]
        what = "ranks " if len(missing) > 1 else "rank "
    return f"{joined}; missing {what}{list_in_words(missing)}" if missing else joined


def _countdown(seconds: float) -> str:
    """`9m40s`, or `8 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest} s"


def hosts_in_words(present: list[Present]) -> str:
    """Host names, each with its address if nodes with other addresses have the same host name."""
    records = [one.record for one in present]
    counts = Counter(host for host, _ in {(record.host, record.address) for record in records})
    names = [f"{record.host} ({record.address})" if counts[record.host] > 1 else record.host for record in records]
    return list_in_words(sorted(names))
