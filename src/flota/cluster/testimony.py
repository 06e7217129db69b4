"""What this node tells the others of its failures, and who else of its workers may be to blame."""

from __future__ import annotations

from flota.cluster.follower import Follower
from flota.cluster.node_record import sendable_failure
from flota.run.evidence import FailureEvidence


def testify(node: Follower, ending: FailureEvidence, *, failed: bool) -> None:
    """Say what is known of this node's part of a round whose workers are gone because somebody has failed. `failed`:
    some did by themselves here. Where all that have failed anywhere have only suffered, one of ours may be to blame
    without having been the first to end.
    """
    job_state, started = node.job_state, ending.last
    if started is None or job_state is None or started.roster.round != job_state.round:
        node.testified((), ())
        return
    found = ending.found if failed else ()
    if not failed and all(fault.suffered for fault in job_state.failures):
        found = tuple(ending.suspects(started))
    node.testified(tuple(map(sendable_failure, found)), ending.ended_well(started))
