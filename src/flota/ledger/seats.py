"""Which processes were at one place of a node, one after the other, while the node had a seat. Pure."""

from __future__ import annotations

from flota.ledger.history import ENDED, NodeTimes, WorkerRun
from flota.values import NamedTuple

LAST_ROUND = 1 << 62


class Seating(NamedTuple):
    """A place for a worker on a node, while the node had a seat: `node` begins and ends with that time. Before and
    after it, the node may have waited as a spare. `runs` is not empty."""

    node: NodeTimes
    runs: list[WorkerRun]

    @property
    def is_successor(self) -> bool:
        """Whether the node was a spare that took the seat of another."""
        first = self.runs[0].round
        return first in self.node.rounds and self.node.rounds[first].called > 0


def seatings_of(node: NodeTimes) -> list[Seating]:
    calls = sorted(number for number, times in node.rounds.items() if times.called)
    found = []
    for first, after in zip([-1, *calls], [*calls, LAST_ROUND], strict=True):
        left = max((times.spare for number, times in node.rounds.items() if first <= number < after), default=0)
        began = node.rounds[first].called if first >= 0 else node.began
        runs = tuple(run for run in node.runs if first <= run.round < after)
        seated = node._replace(began=began, runs=runs)
        if left:
            seated = seated._replace(ended=left, state=ENDED)
        found += [Seating(seated, place) for place in _places(runs)]
    return found


def _places(runs: tuple[WorkerRun, ...]) -> list[list[WorkerRun]]:
    """The processes of each place, one after the other: a place may have another rank in each round."""
    places: dict[tuple[str, int], list[WorkerRun]] = {}
    counts: dict[tuple[int, str], int] = {}
    for run in sorted(runs, key=lambda run: (run.started, run.round, run.rank)):
        key = run.round, run.role
        places.setdefault((run.role, counts.get(key, 0)), []).append(run)
        counts[key] = counts.get(key, 0) + 1
    return list(places.values())
