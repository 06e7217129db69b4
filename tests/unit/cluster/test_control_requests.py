"""Whether a node may leave a running job: only if the job goes on without it."""

from __future__ import annotations

import pytest

from flota.cluster.control_requests import refuse_to_leave
from flota.cluster.job_state import RUNNING, JobState
from flota.control.requests import CannotDo
from flota.job.nodes import NodesSpec
from flota.job.roster import NO_PORTS, Seat
from flota.job.spec import RestartPolicy

JOB = JobState(RUNNING, seats=tuple(Seat(f"node{number}", "gpu", "10.0.0.1", NO_PORTS) for number in range(3)))
ON, OFF = RestartPolicy(3, enabled=True), RestartPolicy(0, enabled=False)


@pytest.mark.parametrize(
    ("job", "nodes", "restarts", "serves", "why"),
    [
        (JOB, NodesSpec(1, 3), ON, False, ""),
        (JOB, NodesSpec(2, 3), ON, False, ""),
        (JOB, NodesSpec(3, 4), ON, False, "the job needs at least 3 nodes"),
        (JOB, NodesSpec(3, 3), ON, False, ""),
        (JOB, NodesSpec(3, 3), OFF, False, "the job needs at least 3 nodes"),
        (JOB, NodesSpec(1, 3), ON, True, "this node serves the job's master"),
        (JOB, NodesSpec(3, 3), ON, True, "this node serves the job's master"),
        (None, NodesSpec(1, 3), ON, False, "is not part of the running round"),
        (JobState(RUNNING), NodesSpec(1, 3), ON, False, "is not part of the running round"),
    ],
)
def test_a_node_leaves_only_if_the_job_goes_on_without_it(job, nodes, restarts, serves, why):
    try:
        refuse_to_leave(job, "node1", nodes, restarts, serves=serves)
        refused = ""
    except CannotDo as error:
        refused = str(error)

    assert bool(refused) == bool(why) and why in refused
