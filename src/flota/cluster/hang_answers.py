"""A node's part when the whole job stands still: says so to the coordinator, and where its ranks stand when it is
asked.
"""

from __future__ import annotations

import time

from flota.cluster import node_actions
from flota.cluster.follower import Follower
from flota.cluster.node_record import sendable_position
from flota.hangs.watch import HangWatch
from flota.supervise.events import RoundRecalled
from flota.supervise.supervisor import SIGABRT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.hangs.wait_sites import RankPosition


class Hanging:
    """`waits`: the stacks are had only when the workers that were aborted for them are gone."""

    def __init__(self, multi_node: MultiNode, hang_watch: HangWatch | None) -> None:
        self.multi_node = multi_node
        self.hang_watch = hang_watch
        self.waits = False

    @property
    def _node(self) -> Follower:
        return self.multi_node.member.node

    def stands(self, *, still: bool) -> None:
        assert self.hang_watch
        hangs = self.hang_watch.hangs
        self._node.stands_still(time.monotonic() - hangs.life_at if still else 0.0, hangs.timeout)
        self.multi_node.advance()

    def obey(self, order: node_actions.TakeStacks | node_actions.Abort | node_actions.GoOn) -> None:
        if isinstance(order, node_actions.TakeStacks):
            self._answer()
        elif self.hang_watch and self.multi_node.in_round:
            if isinstance(order, node_actions.Abort):
                self.waits = self.hang_watch.blind = True
                self.multi_node.end_hung(RoundRecalled(SIGABRT), blind=True)
            else:
                self.hang_watch.go_on()

    def _answer(self) -> None:
        """Where the ranks stand, as soon as it is known; a node that does not watch them has nothing to say."""
        if self.hang_watch:
            self.hang_watch.take_all(self._tell)
        else:
            self._node.stacked(())

    def _tell(self, positions: tuple[RankPosition, ...], blind: bool) -> None:  # noqa: FBT001  as it is called back
        if blind and self.multi_node.in_round:
            self._node.cannot_see()
            self.multi_node.advance()
        else:
            self._say(positions)

    def workers_are_gone(self) -> None:
        if self.waits and self.hang_watch:
            self.waits = False
            self._say(self.hang_watch.left_behind())

    def _say(self, positions: tuple[RankPosition, ...]) -> None:
        self._node.stacked(tuple(sendable_position(post) for post in positions))
        self.multi_node.advance()
