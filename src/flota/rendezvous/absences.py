"""Who of a round is lost: cards that are gone, or that a shepherd has written; and which cards are ahead of us."""

from __future__ import annotations

from flota.rendezvous.cards import DEAD, READY, Present
from flota.rendezvous.notices import GATHERING, Notice, SeatRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class Absences:
    """etcd may end leases that were renewed in time, as when its leader comes back from a pause: unless a shepherd has
    said that its node is dead, a node is given `patience` seconds to put its card back.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.deadline: float | None = None  # when to look again though nothing has changed
        self._missing_since: dict[str, float] = {}
        self._dead: set[str] = set()

    def lost(
        self, seats: tuple[SeatRow, ...], by_node: dict[str, Present], done: Collection[str], now: float
    ) -> list[SeatRow]:
        """Who has finished is not missed."""
        self._dead.update(node for node, one in by_node.items() if one.card.state == DEAD)
        absent = [row for row in seats if row.node not in by_node or row.node in self._dead]
        missing = [row for row in absent if row.node not in done]
        self._missing_since = {row.node: self._missing_since.get(row.node, now) for row in missing}
        believed_at = {node: since + self.patience for node, since in self._missing_since.items()}
        lost = [row for row in missing if row.node in self._dead or now >= believed_at[row.node]]
        self.deadline = min(believed_at.values()) if missing and not lost else None
        return lost


def is_followed(notice: Notice, cards: list[Present], inherited: int) -> bool:
    """Whether a node of the round that was found has gone on to one of ours: then it is a living job's."""
    seated = {row.node for row in notice.seats}
    return any(one.node in seated and one.card.round > inherited for one in cards)


def has_anybody(notice: Notice, cards: list[Present]) -> bool:
    """Whether somebody of the round is left."""
    here = {one.node for one in cards if one.card.state != DEAD}
    return any(row.node in here for row in notice.seats)


def is_ahead(notice: Notice, one: Present) -> bool:
    """Whether a card speaks of a round of which we have not heard."""
    begun = notice.state == GATHERING and one.card.state != READY and one.card.round == notice.round
    return one.card.round > notice.round or begun
