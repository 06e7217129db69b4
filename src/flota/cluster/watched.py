"""A node's part in watching the job: what its record says of ranks at work, and what it is asked to look at. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster import node_actions
from flota.cluster.job_state import JobState
from flota.cluster.node_actions import Order
from flota.cluster.node_record import RUNNING, STACKED, NodeRecord
from flota.cluster.slow_ranks import told_steps
from flota.hangs.wait_sites import RankPosition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.stragglers.detector import Who


class Watched:
    """`record` is what this node has to say; None while it has nothing to offer."""

    def __init__(self) -> None:
        self.record: NodeRecord | None = None
        self.job_state: JobState | None = None
        self.working = False
        self.asked_for_stacks = False
        self._look = 0  # the last that was begun

    def steps_take(self, seconds: Mapping[Who, float]) -> None:
        """What its ranks tell of their steps."""
        if self.record:
            self.record = replace(self.record, steps=told_steps(self.record, seconds))

    def ask_for_look(self) -> int:
        """Somebody here wants to know where all ranks stand: the number of the look that will tell; 0: none will."""
        if not (self.record and self.job_state and self.working):
            return 0
        self.record = replace(self.record, asks=self.job_state.look + 1)
        return self.record.asks

    def looked(self, positions: tuple[RankPosition, ...]) -> None:
        if self.record:
            self.record = replace(self.record, seen=positions, looked=self._look)

    def take_look(self, job_state: JobState) -> list[Order]:
        if job_state.look <= max(self._look, job_state.looked):
            return []
        self._look = job_state.look
        return [node_actions.Look()]

    def stands_still(self, seconds: float, timeout: float) -> None:
        """All of its workers, for so long, when they may be quiet for this `timeout`; 0: they move."""
        if self.record:
            self.record = replace(self.record, stands=seconds, timeout=timeout)

    def take_stacks(self, job_state: JobState) -> list[Order]:
        """Once; and workers that have to be aborted for them when the others have done without."""
        if not self.asked_for_stacks:
            self.asked_for_stacks = True
            return [node_actions.TakeStacks()]
        if not (self.record and self.record.blind and job_state.aborts):
            return []
        self.record = replace(self.record, blind=False)
        return [node_actions.Abort()]

    def stacked(self, positions: tuple[RankPosition, ...]) -> None:
        """Where its ranks stand; who has failed, is done or leaves stays so."""
        if self.record:
            state = STACKED if self.record.state == RUNNING else self.record.state
            self.record = replace(self.record, state=state, positions=positions)

    def cannot_see(self) -> None:
        """Where its ranks stand, unless it aborts them."""
        if self.record:
            self.record = replace(self.record, blind=True)

    def go_on(self) -> list[Order]:
        """On some node a rank has moved after all."""
        self.asked_for_stacks = False
        if self.record:
            state = RUNNING if self.record.state == STACKED else self.record.state
            self.record = replace(self.record, state=state, positions=(), blind=False, stands=0.0)
        return [node_actions.GoOn()]
