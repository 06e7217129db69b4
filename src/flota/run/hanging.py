"""A node's part when the whole job stands still: says so to the chair, and where its ranks stand when it is asked."""

from __future__ import annotations

import time

from flota.rendezvous import orders
from flota.rendezvous.cards import row_of
from flota.rendezvous.node import Node
from flota.run.vigil import Vigil
from flota.supervise.events import RoundRecalled
from flota.supervise.machine import SIGABRT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.together import Together
    from flota.supervise.places import Post


class Hanging:
    """`waits`: the stacks are had only when the workers that were aborted for them are gone."""

    def __init__(self, together: Together, vigil: Vigil | None) -> None:
        self.together = together
        self.vigil = vigil
        self.waits = False

    @property
    def _node(self) -> Node:
        return self.together.member.node

    def stands(self, *, still: bool) -> None:
        assert self.vigil
        hangs = self.vigil.hangs
        self._node.stands_still(time.monotonic() - hangs.life_at if still else 0.0, hangs.timeout)
        self.together.advance()

    def obey(self, order: orders.TakeStacks | orders.Abort | orders.GoOn) -> None:
        if isinstance(order, orders.TakeStacks):
            self._answer()
        elif self.vigil and self.together.in_round:
            if isinstance(order, orders.Abort):
                self.waits = self.vigil.blind = True
                self.together.end_hung(RoundRecalled(SIGABRT), blind=True)
            else:
                self.vigil.go_on()

    def _answer(self) -> None:
        """Where the ranks stand, as soon as it is known; a node that does not watch them has nothing to say."""
        if self.vigil:
            self.vigil.take_all(self._tell)
        else:
            self._node.stacked(())

    def _tell(self, posts: tuple[Post, ...], blind: bool) -> None:  # noqa: FBT001  as it is called back
        if blind and self.together.in_round:
            self._node.cannot_see()
            self.together.advance()
        else:
            self._say(posts)

    def workers_are_gone(self) -> None:
        if self.waits and self.vigil:
            self.waits = False
            self._say(self.vigil.left_behind())

    def _say(self, posts: tuple[Post, ...]) -> None:
        plans = self.together.started.plans
        self._node.stacked(tuple(row_of(post, plans[post.worker].worker.local_rank) for post in posts))
        self.together.advance()
