"""Where the time of a job went: every microsecond of every worker has one label. Pure."""

from __future__ import annotations

from flota.host.channel import NO_STEP
from flota.humanize import ending_in_words
from flota.job.roles import TRAINER, label
from flota.ledger.history import ENDED, KILLED, RUNNING, SECOND, NodeTimes, WorkerRun
from flota.ledger.seats import Seating, seatings_of
from flota.ledger.spending import (
    HANG,
    IMPORT,
    INITIALISE,
    LABELS,
    LOST,
    STALLED,
    STEP,
    STOPPING,
    UNKNOWN,
    RoundEnd,
    Spent,
    spend_gap,
    spend_run,
)
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

COSTS_BEFORE = (LOST, STALLED, HANG, STOPPING)  # of a restart, in the round that ended
COSTS_AFTER = (IMPORT, INITIALISE)  # in the next one
ANY_RANK = -1
MOST_MISSING = 1 << 14  # ranks without events that get a row


class RankLedger(NamedTuple):
    """A place for a worker on a node, from the node's start to its end, without the time in which the node waited as a
    spare; and the place on the spare that took over. `rank`, `node`: those that it had last."""

    role: str
    rank: int
    node: str
    spent: Spent

    @property
    def wall(self) -> int:
        return sum(self.spent.values())

    @property
    def is_known(self) -> bool:
        return any(label != UNKNOWN for label in self.spent)


class RestartCost(NamedTuple):
    """What a restart cost all ranks together."""

    round: int  # the one that ended
    at: int  # microseconds since the start of the job
    reason: str
    ranks: int
    spent: Spent

    @property
    def mean(self) -> int:
        return sum(self.spent.values()) // max(1, self.ranks)


class Ledger(NamedTuple):
    state: str  # ENDED, RUNNING or KILLED
    ranks: tuple[RankLedger, ...]
    restarts: tuple[RestartCost, ...]
    missing: int  # of these ranks, nothing is known
    working_roles: frozenset[str]  # whose workers report steps
    ended_by: str = ""  # for example `stopped after --timeout 8h`; empty if the report says nothing

    @property
    def spent(self) -> Spent:
        return in_order(total(row.spent for row in self.ranks))

    @property
    def wall(self) -> int:
        """Of the rank that took part the longest."""
        return max((row.wall for row in self.ranks), default=0)

    @property
    def working_ranks(self) -> list[RankLedger]:
        """Of roles that report steps, with something known about them."""
        return [row for row in self.ranks if row.role in self.working_roles and row.is_known]

    @property
    def goodput(self) -> float | None:
        """The share of steps that were not done again; None if no steps were reported. Ranks of which nothing is known
        do not count."""
        rows = self.working_ranks
        wall = sum(row.wall for row in rows)
        return sum(row.spent.get(STEP, 0) for row in rows) / wall if wall else None


def make_ledger(nodes: list[NodeTimes], *, adds_missing: bool = True) -> Ledger:
    """The ledger of a job from what is known of its nodes. `adds_missing`: with rows for ranks of other nodes."""
    job = _Job(nodes)
    rows = _join([(one, job.fill(one.node, one.runs)) for node in nodes for one in seatings_of(node)])
    missing = _missing_ranks(nodes)
    wall = max((row.wall for row in rows), default=max((node.ended - node.began for node in nodes), default=0))
    if adds_missing:
        rows += [RankLedger(TRAINER, rank, "", {UNKNOWN: wall}) for rank in missing]
    rows.sort(key=lambda row: (row.role != TRAINER, row.role, row.rank, row.node))
    states = [node.state for node in nodes]
    state = next((one for one in (RUNNING, ENDED) if one in states), KILLED)
    ended_by = next((node.ended_by for node in nodes if node.ended_by), "")
    return Ledger(state, tuple(rows), job.restarts(), len(missing), job.roles, ended_by)


class _Job:
    """What is known of all nodes of a job."""

    def __init__(self, nodes: list[NodeTimes]) -> None:
        self.nodes = nodes
        self.runs = [run for node in nodes for run in node.runs]
        self.roles = frozenset(run.role for run in self.runs if run.page.first_at)
        self.costs: dict[int, list[Spent]] = {}  # of each rank, by the round that ended
        # By round, since its start: the first failure and the last exit on any node.
        self.failed: dict[int, int] = {}
        self.last_exit: dict[int, int] = {}
        self.first_steps: dict[tuple[str, int], dict[int, int]] = {}  # by role and rank, then by round
        for node in nodes:
            for run in node.runs:
                self._note(run, self._into_round(node, run))

    def _note(self, run: WorkerRun, ended: int) -> None:
        self.last_exit[run.round] = max(ended, self.last_exit.get(run.round, 0))
        if run.failed:
            self.failed[run.round] = min(ended, self.failed.get(run.round, ended))
        if run.page.first_at:
            for rank in (run.rank, ANY_RANK):
                steps = self.first_steps.setdefault((run.role, rank), {})
                steps[run.round] = min(run.page.first_step, steps.get(run.round, run.page.first_step))

    def _into_round(self, node: NodeTimes, run: WorkerRun) -> int:
        """When the process ended, since the start of the round: nodes start a round together, whatever their clocks."""
        ended = node.ended if run.ended is None else run.ended
        return ended - (node.rounds[run.round].started if run.round in node.rounds else ended)

    def _end_of(self, node: NodeTimes, number: int) -> RoundEnd:
        if number not in node.rounds:
            return RoundEnd()
        started = node.rounds[number].started
        failed = started + self.failed[number] if number in self.failed else 0
        return RoundEnd(failed, started + self.last_exit.get(number, 0))

    def fill(self, node: NodeTimes, place: list[WorkerRun]) -> RankLedger:
        """Label the time of one place, from the start of the node's seat to its end."""
        pieces: list[Spent] = []
        at, before = node.began, None
        for run, after in zip(place, [*place[1:], None], strict=True):
            gap = spend_gap(node, before, run, at, self._end_of(node, before.round if before else run.round))
            at += sum(gap.values())
            ended = None if run.ended is None else max(at, run.ended)
            counts_steps, repeated_from = run.role in self.roles, self._repeated_from(run)
            used = spend_run(
                run._replace(started=at, ended=ended),
                node,
                self._end_of(node, run.round),
                counts_steps=counts_steps,
                repeated_from=repeated_from,
            )
            at += sum(used.values())
            pieces += [gap, used]
            if before:
                self.costs[before.round][-1] = total([self.costs[before.round][-1], gap, _only(used, COSTS_AFTER)])
            if after:
                self.costs.setdefault(run.round, []).append(_only(used, COSTS_BEFORE))
            before = run
        assert before is not None
        pieces.append(spend_gap(node, before, None, at, self._end_of(node, before.round)))
        return RankLedger(before.role, before.rank, node.node, in_order(total(pieces)))

    def _repeated_from(self, run: WorkerRun) -> int:
        """The lowest step from which a later process of the same rank, or else of the same role, went on."""
        for rank in (run.rank, ANY_RANK):
            steps = self.first_steps.get((run.role, rank), {})
            later = [step for number, step in steps.items() if number > run.round]
            if later:
                return min(later)
        return NO_STEP

    def restarts(self) -> tuple[RestartCost, ...]:
        rows = []
        for number, costs in sorted(self.costs.items()):
            node = next(node for node in self.nodes if any(run.round == number for run in node.runs))
            ends = [run.ended for run in node.runs if run.round == number and run.ended is not None]
            at = max(0, min(ends, default=node.began) - node.began)
            rows.append(RestartCost(number, at, self._reason(number), len(costs), in_order(total(costs))))
        return tuple(rows)

    def _reason(self, number: int) -> str:
        """As the report has it, if there is one; otherwise what the events say."""
        known = [node.reasons[number] for node in self.nodes if number in node.reasons]
        if known:
            return known[0]
        if any(node.rounds[number].hang for node in self.nodes if number in node.rounds):
            return HANG
        failed = [run for run in self.runs if run.round == number and run.failed]
        return f"{label(failed[0].role, failed[0].rank)} {ending_in_words(failed[0].code)}" if failed else ""


def _join(parts: list[tuple[Seating, RankLedger]]) -> list[RankLedger]:
    """One row for each seat's place: a spare that took over continues the row of the rank that it got."""
    rows: list[tuple[int, RankLedger]] = []  # with the last round
    for seating, row in sorted(parts, key=lambda part: part[0].runs[0].round):
        first, last = seating.runs[0], seating.runs[-1].round
        rank = first.role, first.rank
        before = [at for at, (end, one) in enumerate(rows) if (one.role, one.rank) == rank and end < first.round]
        if seating.is_successor and before:
            _, lost = rows.pop(max(before, key=lambda at: rows[at][0]))
            rows.append((last, row._replace(spent=in_order(total([lost.spent, row.spent])))))
        else:
            rows.append((last, row))
    return [row for _, row in rows]


def _missing_ranks(nodes: list[NodeTimes]) -> list[int]:
    """Trainers of the last round whose nodes left no events."""
    number = max((number for node in nodes for number in node.rounds), default=0)
    workers = max((node.rounds[number].workers for node in nodes if number in node.rounds), default=0)
    runs = {(run.role, run.rank) for node in nodes for run in node.runs if run.round == number}
    known = {rank for role, rank in runs if role == TRAINER}
    trainers = min(workers - (len(runs) - len(known)), MOST_MISSING)
    return [rank for rank in range(trainers) if rank not in known]


def _only(spent: Spent, labels: tuple[str, ...]) -> Spent:
    return {name: amount for name, amount in spent.items() if name in labels}


def total(parts: Iterable[Spent]) -> Spent:
    result: Spent = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = result.get(name, 0) + amount
    return result


def in_order(spent: Spent) -> Spent:
    """Labels in the order of LABELS; the names of other phases come after those of steps, by name."""
    place = {name: number for number, name in enumerate(LABELS)}
    return {name: spent[name] for name in sorted(spent, key=lambda name: (place.get(name, place[STEP]), name))}


def ledger_as_dict(ledger: Ledger) -> dict[str, object]:
    """For report.json and `flota report --json`. Sums of seconds are exact to the microsecond."""
    return {
        "state": ledger.state,
        "ended_by": ledger.ended_by or None,
        "wall_seconds": ledger.wall / SECOND,
        "goodput": None if ledger.goodput is None else round(ledger.goodput, 6),
        "seconds": _in_seconds(ledger.spent),
        "unknown_ranks": ledger.missing,
        "ranks": [
            {
                "role": row.role,
                "rank": row.rank,
                "node": row.node,
                "wall_seconds": row.wall / SECOND,
                "seconds": _in_seconds(row.spent),
            }
            for row in ledger.ranks
        ],
        "restarts": [
            {
                "round": one.round,
                "at_seconds": one.at / SECOND,
                "reason": one.reason,
                "ranks": one.ranks,
                "seconds": _in_seconds(one.spent),
            }
            for one in ledger.restarts
        ],
    }


def _in_seconds(spent: Spent) -> dict[str, float]:
    return {name: amount / SECOND for name, amount in spent.items()}
