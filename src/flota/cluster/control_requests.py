"""What users ask of a job on several machines: where its nodes listen, what the job does, whether a node may leave."""

from __future__ import annotations

import os
import socket

from flota.cluster.job_state import GATHERING, JobState
from flota.cluster.questions import ON_REQUEST
from flota.cluster.store_access import make_tls
from flota.control.requests import CannotDo, JobRequests
from flota.control.status import RESTARTING, RUNNING, WAITING
from flota.job.nodes import ONE_NODE, NodesSpec
from flota.job.overview import JobOverview, NodeEndpoint
from flota.job.roster import Roster, Seat, endpoint
from flota.job.spec import JobSpec, RestartPolicy
from flota.job.survey_outcomes import Result
from flota.supervise.grace_period import SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.control.door import ControlDoor

NOT_SEATED = "this node is not part of the running round: try again when it has joined"


def requests_of(node: MultiNode) -> JobRequests:
    return ClusterRequests(node) if "store" in vars(node) else EarlyRequests(node)


class EarlyRequests(JobRequests):
    """Of a node that waits until it knows which nodes run etcd (--masters)."""

    def overview(self) -> JobOverview:
        return JobOverview((), state=WAITING, message="waiting for the nodes that run etcd")

    def stop(self) -> str:
        os.kill(os.getpid(), SIGTERM)
        return "stopping this node, which has no ranks"

    def restart(self) -> str:
        raise CannotDo("the job is not running")

    def leave(self) -> str:
        raise CannotDo(NOT_SEATED)

    def ask(self, _kind: str) -> None:
        return None

    def result_of(self, _kind: str) -> None:
        return None


class ClusterRequests(JobRequests):
    def __init__(self, node: MultiNode) -> None:
        super().__init__(node, node.store.token or node.nodes.secrets.token, node.nodes.secrets.authority)
        self._node = node

    def overview(self) -> JobOverview:
        job, store = self._node.follower.job_state, self._node.store
        overview = overview_of(job, self._node.follower.name, tls=self._node.nodes.tls)
        # Users may give several jobs one id; then, and before the first round, the nodes have their store in common.
        run = (job.run_name if job else "").partition("/")[0] or store.addresses
        return overview._replace(store_seconds=store.client.last_seconds, run=run)

    def _refuse_if_spare(self) -> None:
        if self._node.follower.is_spare:
            raise CannotDo("this node is a spare, which acts for itself alone: ask a node with ranks")

    def stop(self) -> str:
        self._refuse_if_spare()
        job, is_first = self._node.follower.job_state, not self._node.stopped_by
        if not is_first and self._node.stop_scope == ONE_NODE and not (job and job.ending):
            raise CannotDo("this node is leaving the job: ask another node to stop it")
        answer, has_seat = super().stop(), job is not None and job.seat_of(self._node.follower.name) >= 0
        return answer if has_seat else "stopping this node, which has no ranks"

    def restart(self) -> str:
        self._refuse_if_spare()
        if not self._node.follower.request_restart():
            raise CannotDo("the job is not running")
        self._node.advance()
        return "restarting all workers"

    def leave(self) -> str:
        node, serves = self._node, self._node.store.master is not None
        refuse_to_leave(node.follower.job_state, node.follower.name, node.nodes, node.spec.restarts, serves=serves)
        self._node.begin_stop("flota drain", SIGTERM)
        return "this node leaves the job"

    def ask(self, kind: str) -> int | None:
        after = self._node.follower.request(kind) if kind in ON_REQUEST else None
        self._node.advance()
        return after

    def result_of(self, kind: str) -> Result | None:
        job_state = self._node.follower.job_state
        return job_state.results.get(kind) if job_state else None


def open_control_port(door: ControlDoor, spec: JobSpec, nodes: NodesSpec, token: str) -> str:
    """Let those who have the job's token ask this node over the network. Returns the port; empty: they cannot.

    Only with a certificate in a job with TLS: the token would be sent in the clear.
    """
    if not token or (nodes.tls and not nodes.secrets.certificate):
        return ""
    family = socket.AF_INET6 if ":" in spec.address else socket.AF_INET
    try:
        listener = socket.create_server((spec.address, 0), family=family)
    except OSError:
        return ""  # not an address of this machine, as behind a forwarded port
    door.listen_to_network(listener, token, make_tls(nodes.secrets, server=True) if nodes.tls else None)
    return str(listener.getsockname()[1])


def overview_of(job_state: JobState | None, own: str, *, tls: bool) -> JobOverview:
    job = job_state or JobState(GATHERING)
    places = tuple(NodeEndpoint(seat.host, seat.address, _endpoint_of(seat, tls=tls)) for seat in job.seats)
    state = (RESTARTING if job.seats else WAITING) if job.phase == GATHERING else ""
    overview = JobOverview(places, job.restarts, job.slow, state, job.join_status or job.why)
    spares = tuple(NodeEndpoint(seat.host, seat.address, _endpoint_of(seat, tls=tls)) for seat in job.spares)
    if state or not job.is_spare(own):
        return overview._replace(spares=spares)
    return overview._replace(spares=spares, state=RUNNING, waits_in=Roster(job.round, job.attempt, job.seats))


def _endpoint_of(seat: Seat, *, tls: bool) -> str:
    return f"{'https' if tls else 'http'}://{endpoint(seat.address, seat.control)}" if seat.control else ""


def refuse_to_leave(
    job: JobState | None, node: str, nodes: NodesSpec, restarts: RestartPolicy, *, serves: bool
) -> None:
    """Raise CannotDo if the job would end without this node. `serves`: it serves the embedded master."""
    is_spare = job is not None and job.is_spare(node)
    if job is None or (job.seat_of(node) < 0 and not is_spare):
        raise CannotDo(NOT_SEATED)
    if serves:
        raise CannotDo("this node serves the job's master, so the job would end: to end it, use flota stop")
    staying = len(job.seats) + len(job.spares) - 1
    if not is_spare and staying < nodes.least and (nodes.elastic or not restarts.enabled):
        raise CannotDo(f"the job needs at least {nodes.least} node{'s' * (nodes.least > 1)}: to end it, use flota stop")
