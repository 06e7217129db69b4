"""dstack: the nodes of a distributed task. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.reading import OWN_PORT, Variables, as_name


def detect(environ: Mapping[str, str]) -> Hints:
    variables = Variables("dstack", environ)
    nodes = variables.number("DSTACK_NODES_NUM", 1)
    return Hints(
        *("DSTACK_NODES_NUM", nodes, variables.rank("DSTACK_NODE_RANK", nodes, "DSTACK_NODES_NUM")),
        "DSTACK_NODE_RANK",
        master=endpoint(environ["DSTACK_MASTER_NODE_IP"], str(OWN_PORT)) if nodes > 1 else "",
        master_source="DSTACK_MASTER_NODE_IP",
        workers=variables.optional("DSTACK_GPUS_PER_NODE"),
        workers_source="DSTACK_GPUS_PER_NODE",
        job_id=as_name(environ.get("DSTACK_RUN_NAME", "")),
        job_source="DSTACK_RUN_NAME",
    )
