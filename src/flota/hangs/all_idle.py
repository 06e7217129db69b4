"""Whether all nodes of a round have stopped making progress together. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from flota.cluster.node_record import Present
    from flota.job.roster import Seat

TOGETHER = 0.2  # of the timeout
GOES_ON = 0.45  # of it, after a node has finished: so long may it take another to see that its ranks go on now


class AllIdle:
    """One node may have waited for long for another that has just finished, and the next moment it will go on.
    `deadline`: when to look again though nothing has changed.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._since, self._part = 0.0, TOGETHER
        self._done: frozenset[str] | None = None

    def lasts(self, seats: tuple[Seat, ...], of_round: list[Present], done: Collection[str], now: float) -> bool:
        timeout = shortest_timeout(seats, of_round, done)
        if timeout is None:
            self.deadline = self._done = None
            return False
        if self._done != frozenset(done):
            self._part = TOGETHER if self._done is None else GOES_ON
            self._since, self._done = now, frozenset(done)
        enough = self._since + self._part * timeout
        self.deadline = enough if now < enough else None
        return now >= enough


def shortest_timeout(seats: tuple[Seat, ...], of_round: list[Present], done: Collection[str]) -> float | None:
    """After which every node that has work says that its workers make no progress; None: one does not say so."""
    records = {one.node: one.record for one in of_round}
    at_work = [seat.node for seat in seats if seat.node not in done]
    busy = [node for node in at_work if node not in records or records[node].state != "serving"]
    idle = [record for node in busy if (record := records.get(node)) and record.state == "running" and record.idle]
    return min(record.timeout for record in idle) if idle and len(idle) == len(busy) else None
