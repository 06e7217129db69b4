"""What one node knows of the whole job, for those who ask it. Pure."""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.report import PastRestart
    from flota.job.roster import Roster
    from flota.stragglers.detector import SlowRank


class NodeEndpoint(NamedTuple):
    """A node of the running round. `endpoint`: where it can be asked; empty: it cannot be."""

    host: str
    address: str
    endpoint: str = ""


class JobOverview(NamedTuple):
    """`state`: the job's, if it is not that of this node's workers. `message`: what the job waits for. `store_seconds`:
    how long the last request of this node to the store took."""

    places: tuple[NodeEndpoint, ...]
    restarts: tuple[PastRestart, ...] = ()
    slow: tuple[SlowRank, ...] = ()
    state: str = ""
    message: str = ""
    store_seconds: float | None = None
    spares: tuple[NodeEndpoint, ...] = ()
    waits_in: Roster | None = None  # the running round, if this node is a spare
    run: str = ""  # the same on all nodes of the job, and on no other job's; empty: the job has one node
