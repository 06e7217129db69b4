"""Finds the earliest of many deadlines.

A heap whose entries may be stale: a moved or removed deadline is noticed only when its entry reaches the top. So
renewing a lease, which happens thousands of times a second, is one assignment. Pure.
"""

from heapq import heapify, heappop, heappush, heapreplace

MAX_STALE = 64  # stale entries that are not worth removing


class Deadlines:
    def __init__(self) -> None:
        self._ends: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def __getitem__(self, number: int) -> float:
        return self._ends[number]

    def __setitem__(self, number: int, end: float) -> None:
        known = self._ends.get(number)
        self._ends[number] = end
        if known is None or end < known:
            heappush(self._heap, (end, number))
            if len(self._heap) > 2 * len(self._ends) + MAX_STALE:
                self._heap = [(end, number) for number, end in self._ends.items()]
                heapify(self._heap)

    def remove(self, number: int) -> None:
        self._ends.pop(number, None)

    @property
    def first(self) -> float | None:
        heap = self._heap
        while heap:
            noted, number = heap[0]
            end = self._ends.get(number)
            if end == noted:
                return end
            if end is None or end < noted:
                heappop(heap)  # removed, or moved forward and pushed a second time
            else:
                heapreplace(heap, (end, number))
        return None

    def take_due(self, now: float) -> list[int]:
        """Remove and return the numbers whose deadline has passed, in order."""
        due = []
        while (first := self.first) is not None and first <= now:
            _, number = heappop(self._heap)
            del self._ends[number]
            due.append(number)
        return due
