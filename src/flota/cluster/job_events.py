"""Which node of a job runs the command of --on_event, and for which events."""

from __future__ import annotations

from flota.job.report import INCOMPLETE, JobEnding, PastRestart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.run.event_command import EventCommand


def report_restarts(node: MultiNode, command: EventCommand) -> tuple[PastRestart, ...]:
    """Run the command for the restarts in new job states, if the coordinator has chosen this node. Returns the last
    restart, which the next call compares."""
    last = node.last_restart
    for job_state in node.member.new_states:
        known, last = last, job_state.restarts[-1:]
        if last not in (known, ()) and job_state.reports == node.follower.name:
            culprit = job_state.failures[0] if job_state.failures else None
            command.report_restart(job_state.round, job_state.attempt, job_state.delay, culprit, last[0].reason)
    return last


def report_own_failure(node: MultiNode, ending: JobEnding) -> None:
    """Run the command for the failure of a node that leaves a job that goes on, as with --elastic_level 0: only this
    node knows the failure."""
    if node.event_command and ending.failures and not _is_decision(node, ending):
        roster = node.started.roster
        node.event_command.report_failure(ending.failures[0], roster.round, roster.attempt)


def runs_command_at_end(node: MultiNode, ending: JobEnding) -> bool:
    """Whether this node runs the command for the end of the job. The coordinator chooses a node that is there. If the
    store was lost, there is no decision: node 0 does, or node 1 if node 0 was lost together with the master."""
    job_state = node.follower.job_state
    if job_state and _is_decision(node, ending):
        return job_state.reports == node.follower.name
    first = 0 if node.nodes.etcd or node.store.master else 1
    if node.follower.is_spare:
        return False
    return not node.evidence.rounds or (ending.kind == INCOMPLETE and node.started.seat == first)


def _is_decision(node: MultiNode, ending: JobEnding) -> bool:
    """Whether the job has ended for all nodes in this way, and not only for this node."""
    job_state = node.follower.job_state
    return job_state is not None and job_state.ending == ending
