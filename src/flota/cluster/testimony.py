"""What this node tells the others of its failures, and who else of its workers may be to blame."""

from __future__ import annotations

from msgspec.structs import astuple

from flota.cluster.follower import Follower
from flota.cluster.job_state import JobEnding
from flota.cluster.node_record import Fault, sendable
from flota.job.report import FailedWorker, Failure
from flota.run.evidence import FailureEvidence
from flota.run.start import Started

LONGEST_LINE = 400


def fault_of(failed: FailedWorker) -> Fault:
    told = failed._replace(
        log=sendable(failed.log),
        ending=sendable(failed.ending),
        said=tuple(sendable(line[:LONGEST_LINE]) for line in failed.said),
        exception=sendable(failed.exception),
        evidence=sendable(failed.evidence),
        hint=sendable(failed.hint),
    )
    return Fault(*told)


def faults_of(ending: FailureEvidence, failures: list[Failure], started: Started) -> tuple[Fault, ...]:
    return tuple(fault_of(ending.failed(failure, started)) for failure in failures)


def failures_of(ending: JobEnding) -> tuple[FailedWorker, ...]:
    return tuple(FailedWorker(*astuple(fault)) for fault in ending.faults)


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
    if not failed and all(fault.suffered for fault in job_state.faults):
        found = tuple(ending.suspects(started))
    node.testified(tuple(map(fault_of, found)), ending.ended_well(started))
