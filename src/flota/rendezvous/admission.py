"""Who takes part: of all cards those with a seat to be had, and why the others are turned away."""

from __future__ import annotations

from flota.rendezvous.cards import DEAD, LEAVING, Present
from flota.rendezvous.notices import GATHERING, Notice, Refused
from flota.rendezvous.terms import Terms, disagreement, no_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

GHOST = 1.0  # seconds beyond a lease after which a card is surely no dead node's


class Admission:
    """`deadline`: when to ask again though nothing has changed."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.ghostly = terms.lease + GHOST
        self.deadline: float | None = None
        self._first_seen: dict[str, float] = {}

    def admit(
        self, cards: list[Present], notice: Notice, gone: Collection[str], now: float, *, trusting: bool
    ) -> tuple[list[Present], dict[str, Refused]]:
        """Those who take part, and all who were turned away. Who sat in the round comes before who came later."""
        taken: list[Present] = []
        holders: dict[int, str] = {}
        self.deadline = None
        here = {one.node for one in cards}
        self._first_seen = {node: since for node, since in self._first_seen.items() if node in here}
        refused = {node: why for node, why in notice.refused.items() if node in here}
        seated = {row.node for row in notice.seats}
        for one in sorted(cards, key=lambda one: (one.node not in seated, one.came)):
            if one.node in refused or one.node in gone or one.card.state in (LEAVING, DEAD):
                continue
            since = self._first_seen.setdefault(one.node, now)
            why = disagreement(one.card, self.terms)
            if not why:
                why = no_room(one.card, holders, len(taken), self.terms)
                # The one in its way may be its own earlier life, of which the store does not know yet that it is dead.
                ghostly = why and (not trusting or _may_hold_a_ghost(taken, one, notice))
                if ghostly and now < since + self.ghostly:
                    self._ask_again(since + self.ghostly)
                    continue
            if why:
                refused[one.node] = Refused(one.card.host, why)
            else:
                taken.append(one)
                if one.card.rank >= 0:
                    holders[one.card.rank] = one.card.host
        return taken, refused

    def _ask_again(self, at: float) -> None:
        self.deadline = at if self.deadline is None else min(self.deadline, at)


def _may_hold_a_ghost(taken: list[Present], one: Present, notice: Notice) -> bool:
    """Whether one of those in its way may be dead, of which the store does not know yet: an earlier life on its own
    host, one of two on a host, or one that has not answered the last notice."""
    hosts = [other.card.host for other in taken]
    silent = notice.state == GATHERING and any(other.card.round < notice.round for other in taken)
    return one.card.host in hosts or len(set(hosts)) < len(hosts) or silent
