"""How numbers of a job changed over its whole life, in a bounded number of points. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from flota.control.status import RankStatus
from flota.dashboard.job_progress import progress_of
from flota.dashboard.node_events import replay
from flota.job.report import NO_STEP

Json = dict[str, Any]
MOST_POINTS = 720  # about one per two pixels of a wide screen
SLOWEST = "slowest"
TOGETHER, SHARE = 1.0, 0.1  # seconds, and share of the whole time, within which records of several ranks are one point


class Curves:
    """When there are too many points, each two become one, and from then on points are taken half as often."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self.interval = 0.0
        self.points: list[tuple[float, dict[str, float]]] = []

    def is_due(self, at: float) -> bool:
        return not self.points or at - self.points[-1][0] >= self.interval

    def add_ranks(self, at: float, ranks: Iterable[RankStatus]) -> None:
        progress = progress_of(ranks)
        values = {name: progress[name] for name in ("step", "seconds", "slowest", "fastest")}
        self.add(at, {**values, **{f"number:{name}": value for name, value in progress["numbers"].items()}})

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        """`at`: seconds since 1970. Values that are not known, or not finite, are left out."""
        known = {name: value for name, value in values.items() if value is not None and isfinite(value)}
        if not known or not self.is_due(at):
            return
        self.points.append((at, known))
        if len(self.points) > self._most:
            self._halve()

    def _halve(self) -> None:
        pairs = zip(self.points[::2], [*self.points[1::2], None], strict=False)
        self.points = [_merged(one, other) if other else one for one, other in pairs]
        self.interval = 2 * (self.points[-1][0] - self.points[0][0]) / self._most

    def as_dict(self) -> dict[str, Any]:
        """Columns: `at`, and one list for each name, with None where it is not known."""
        names = sorted({name for _, values in self.points for name in values})
        return {
            "at": [round(at, 3) for at, _ in self.points],
            "values": {name: [values.get(name) for _, values in self.points] for name in names},
        }


def _merged(
    one: tuple[float, dict[str, float]], other: tuple[float, dict[str, float]]
) -> tuple[float, dict[str, float]]:
    """Means, but the slowest of both: a peak must stay visible."""
    values = {**one[1], **other[1]}
    for name in one[1].keys() & other[1].keys():
        values[name] = max(one[1][name], other[1][name]) if name == SLOWEST else (one[1][name] + other[1][name]) / 2
    return other[0], values


def curves_of(nodes: Iterable[list[Json]]) -> Curves:
    """From the events of all nodes, from the beginning of the job to its last record."""
    records = sorted((one for events in nodes for one in replay(events)), key=lambda record: record[0])
    records = [record for record in records if record[2].step != NO_STEP]
    together = min(TOGETHER, SHARE * (records[-1][0] - records[0][0])) if records else 0.0
    curves = Curves()
    ranks: dict[tuple[str, int], RankStatus] = {}
    number, begins, last = 0, 0.0, 0.0
    for at, round_, rank in records:
        if round_ < number:
            continue
        if ranks and at - begins >= together and curves.is_due(last):
            curves.add_ranks(last, ranks.values())
        begins = at if at - begins >= together else begins
        if round_ > number:  # another round has begun: what is known of the last one is not about it
            number, ranks = round_, {}
        ranks[rank.role, rank.rank] = rank
        last = at
    curves.add_ranks(last, ranks.values())
    return curves
