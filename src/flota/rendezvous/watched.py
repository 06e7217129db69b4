"""A node's part in watching the job: what its card says of ranks at work, and what it is asked to look at. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.rendezvous import orders
from flota.rendezvous.cards import RUNNING, STACKED, Card, PostRow
from flota.rendezvous.notices import Notice
from flota.rendezvous.orders import Order
from flota.rendezvous.pacing import told_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.supervise.stragglers import Who


class Watched:
    """`card` is what this node has to say; None while it has nothing to offer."""

    def __init__(self) -> None:
        self.card: Card | None = None
        self.notice: Notice | None = None
        self.working = False
        self.asked_for_stacks = False
        self._look = 0  # the last that was begun

    def steps_take(self, seconds: Mapping[Who, float]) -> None:
        """What its ranks tell of their steps."""
        if self.card:
            self.card = replace(self.card, steps=told_steps(self.card, seconds))

    def ask_for_look(self) -> int:
        """Somebody here wants to know where all ranks stand: the number of the look that will tell; 0: none will."""
        if not (self.card and self.notice and self.working):
            return 0
        self.card = replace(self.card, asks=self.notice.look + 1)
        return self.card.asks

    def looked(self, posts: tuple[PostRow, ...]) -> None:
        if self.card:
            self.card = replace(self.card, seen=posts, looked=self._look)

    def take_look(self, notice: Notice) -> list[Order]:
        if notice.look <= max(self._look, notice.looked):
            return []
        self._look = notice.look
        return [orders.Look()]

    def stands_still(self, seconds: float, timeout: float) -> None:
        """All of its workers, for so long, when they may be quiet for this `timeout`; 0: they move."""
        if self.card:
            self.card = replace(self.card, stands=seconds, timeout=timeout)

    def take_stacks(self, notice: Notice) -> list[Order]:
        """Once; and workers that have to be aborted for them when the others have done without."""
        if not self.asked_for_stacks:
            self.asked_for_stacks = True
            return [orders.TakeStacks()]
        if not (self.card and self.card.blind and notice.aborts):
            return []
        self.card = replace(self.card, blind=False)
        return [orders.Abort()]

    def stacked(self, posts: tuple[PostRow, ...]) -> None:
        """Where its ranks stand; who has failed, is done or leaves stays so."""
        if self.card:
            state = STACKED if self.card.state == RUNNING else self.card.state
            self.card = replace(self.card, state=state, posts=posts)

    def cannot_see(self) -> None:
        """Where its ranks stand, unless it aborts them."""
        if self.card:
            self.card = replace(self.card, blind=True)

    def go_on(self) -> list[Order]:
        """On some node a rank has moved after all."""
        self.asked_for_stacks = False
        if self.card:
            state = RUNNING if self.card.state == STACKED else self.card.state
            self.card = replace(self.card, state=state, posts=(), blind=False, stands=0.0)
        return [orders.GoOn()]
