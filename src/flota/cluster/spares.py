"""Spares: nodes beyond the number that a round needs. Which nodes get a seat, which wait, and which rank is so slow
that its node is swapped for a spare. Pure.
"""

from collections.abc import Collection

from msgspec.structs import replace

from flota.cluster.job_state import DECIDING, RUNNING, JobState, take_seat
from flota.cluster.node_record import READY, Present, without_rank
from flota.cluster.seating import imports_first
from flota.cluster.terms import Terms
from flota.humanize import list_in_words
from flota.job.roles import label
from flota.job.roster import NO_PORTS
from flota.stragglers.detector import SlowRank, SlowRankWatch


class Spares:
    """`straggler`: a slow rank whose node can be swapped; its `host` is the name of that node, because several nodes
    may have one host. `deadline`: when to look for one again even if nothing changes."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.straggler: SlowRank | None = None
        self.deadline: float | None = None
        self._watch = SlowRankWatch(terms.evict)
        self._slow: tuple[int, tuple[SlowRank, ...]] = -1, ()  # of this round

    def note(self, job: JobState, present: list[Present]) -> JobState:
        """List the nodes that wait in this round, in the order in which they joined. Their ports are not known: they
        are reserved for the next round."""
        if not self.terms.spares or job.phase not in (RUNNING, DECIDING):
            return job
        waiting = sorted(_without_seat(present, job), key=lambda one: one.created)
        spares = tuple(take_seat(one.node, one.record)._replace(ports=NO_PORTS) for one in waiting)
        return replace(job, spares=spares) if spares != job.spares else job

    def find_newcomers(self, job: JobState, present: list[Present]) -> list[Present]:
        """The nodes for which the round is restarted: those without a seat, unless all seats are taken."""
        return [] if self._is_full(job) else _without_seat(present, job)

    def has_ready_newcomer(self, job: JobState, present: list[Present]) -> bool:
        newcomers = self.find_newcomers(job, present)
        return any(not imports_first(one.record, job.seats, elastic=self.terms.elastic) for one in newcomers)

    def _is_full(self, job: JobState) -> bool:
        """Without spares, more nodes than seats are here only if a node with a seat is lost."""
        return self.terms.spares > 0 and len(job.seats) >= self.terms.most

    def with_successors(self, why: str, present: list[Present], job: JobState, gone: Collection[str]) -> str:
        """Why a round ends, with the spares that take over."""
        chosen = choose_nodes([one for one in present if one.node not in gone], job, self.terms)
        hosts = [one.record.host for one in _without_seat(chosen, job)]
        if not self._is_full(job) or not hosts:
            return why
        return f"{why}; replaced by the spare{'s' * (len(hosts) > 1)} {list_in_words(hosts)}"

    def find_straggler(self, job: JobState, present: list[Present], now: float) -> bool:
        """Whether a rank has been slow for long enough, and a spare waits. A node is evicted only once."""
        if not self.terms.evict:
            return False
        waiting = {one.node for one in _without_seat(present, job)}
        steps = [(one.node, one.record.steps) for one in present if one.node not in waiting]
        known = self._slow[1] if self._slow[0] == job.round else ()
        self._slow = job.round, self._watch.update(job.round, known, steps, now)
        self.deadline = self._watch.deadline
        slow = [row for row in self._slow[1] if row.host not in job.evicted]
        self.straggler = max(slow, key=lambda row: row.factor, default=None)
        return self.straggler is not None and not waiting <= set(job.evicted)

    def evict(self, job: JobState) -> tuple[JobState, str]:
        """The job state in which the straggler's node is evicted, and why."""
        slow = self.straggler
        assert slow is not None
        host = next(row.host for row in job.seats if row.node == slow.host)
        rank, factor = label(slow.role, slow.rank), f"{slow.factor:.1f}"
        why = f"{host} is evicted: the steps of {rank} take {factor} times as long as those of the other ranks"
        return replace(job, evicted=(*job.evicted, slow.host)), why


def choose_nodes(present: list[Present], job: JobState, terms: Terms) -> list[Present]:
    """The nodes for the next round. Survivors keep their seats; the others are taken in the order in which they joined.
    A node that was evicted for a slow rank comes last, and one that is not ready after those that are."""
    if not terms.spares:
        return present
    seats = {row.node: number for number, row in enumerate(job.seats)}
    here = {one.node for one in present} - set(job.evicted)
    # A node with other workers would change the ranks.
    wanted = {(row.workers, row.workers_by_role) for row in job.seats if row.node not in here}

    def order(one: Present) -> tuple[object, ...]:
        record = one.record
        fits = not wanted or (record.workers, record.workers_by_role) in wanted
        is_ready = (record.state, record.round) == (READY, job.round)
        # Of those without a seat, the node that serves the store is first: all nodes know its address.
        return one.node in job.evicted, one.node not in seats, not fits, not is_ready, not record.serves, one.created

    chosen = sorted(present, key=order)[: terms.most]
    # A node with --rank may find another in that seat. Then it takes any, and keeps it as others do.
    kept = {seats[one.node] for one in chosen if one.node in seats}
    return [without_rank(one) if one.node in seats or one.record.rank in kept else one for one in chosen]


def _without_seat(present: list[Present], job: JobState) -> list[Present]:
    seated = {row.node for row in job.seats}
    return [one for one in present if one.node not in seated]
