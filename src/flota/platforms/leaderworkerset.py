"""LeaderWorkerSet of Kubernetes: a job is one group, a leader and its workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.reading import OWN_PORT, POD_GRACE, Variables, as_name


def detect(environ: Mapping[str, str]) -> Hints:
    variables = Variables("LeaderWorkerSet", environ)
    nodes = variables.number("LWS_GROUP_SIZE", 1)
    leader = environ["LWS_LEADER_ADDRESS"]
    return Hints(
        *("LWS_GROUP_SIZE", nodes, variables.rank("LWS_WORKER_INDEX", nodes, "LWS_GROUP_SIZE"), "LWS_WORKER_INDEX"),
        master=endpoint(leader, str(OWN_PORT)) if nodes > 1 else "",
        master_source="LWS_LEADER_ADDRESS",
        job_id=as_name(leader.partition(".")[0]),  # the group: the set's name and the group's number
        job_source="LWS_LEADER_ADDRESS",
        grace=POD_GRACE,
    )
