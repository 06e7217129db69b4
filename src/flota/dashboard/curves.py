"""How numbers of a job changed over its whole life, in a bounded number of points. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

MOST_POINTS = 720  # about one per two pixels of a wide screen
SLOWEST = "slowest"


class Curves:
    """When there are too many points, each two become one, and from then on points are taken half as often."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self.interval = 0.0
        self.points: list[tuple[float, dict[str, float]]] = []

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        """`at`: seconds since 1970. Values that are not known, or not finite, are left out."""
        known = {name: value for name, value in values.items() if value is not None and isfinite(value)}
        if not known or (self.points and at - self.points[-1][0] < self.interval):
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
