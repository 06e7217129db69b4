"""What users ask of a job on one machine."""

from __future__ import annotations

from flota.control.requests import CannotDo, JobRequests
from flota.job.overview import JobOverview, NodeEndpoint
from flota.supervise.events import RestartRequested
from flota.supervise.supervisor import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.single_node import SingleNode


class SingleNodeRequests(JobRequests):
    def __init__(self, node: SingleNode) -> None:
        super().__init__(node)
        self._node = node

    def overview(self) -> JobOverview:
        seat = self._node.started.roster.seats[0]
        places = (NodeEndpoint(seat.host, seat.address),)
        return JobOverview(places, tuple(self._node.evidence.restarts), self._node.slow)

    def restart(self) -> str:
        if not self._node.in_round or self._node.supervisor.phase != Phase.RUNNING:
            raise CannotDo("the job is not running")
        self._node.console.say("INFO", "flota restart received; restarting all workers")
        self._node.step(RestartRequested())
        return "restarting all workers"

    def leave(self) -> str:
        raise CannotDo("the job has only this node: to end it, use flota stop")

    def ask(self, kind: str) -> None:  # noqa: ARG002  there is no other node
        return None

    def result_of(self, kind: str) -> None:  # noqa: ARG002
        return None
