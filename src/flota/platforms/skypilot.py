"""SkyPilot: the addresses of all nodes, one per line. The setup section has other names, and no job. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.reading import OWN_PORT, Variables, as_name


def detect(environ: Mapping[str, str]) -> Hints:
    variables, hosts = Variables("SkyPilot", environ), environ["SKYPILOT_NODE_IPS"].split()
    nodes = variables.optional("SKYPILOT_NUM_NODES") or len(hosts)
    if len(hosts) != nodes:
        raise variables.error("SKYPILOT_NUM_NODES", f"the number of addresses in SKYPILOT_NODE_IPS, {len(hosts)}")
    return Hints(
        *("SKYPILOT_NODE_IPS", nodes, variables.rank("SKYPILOT_NODE_RANK", nodes, "SKYPILOT_NUM_NODES")),
        "SKYPILOT_NODE_RANK",
        master=endpoint(hosts[0], str(OWN_PORT)) if nodes > 1 else "",
        workers=variables.optional("SKYPILOT_NUM_GPUS_PER_NODE"),
        workers_source="SKYPILOT_NUM_GPUS_PER_NODE",
        job_id=as_name(environ.get("SKYPILOT_TASK_ID", "")),
        job_source="SKYPILOT_TASK_ID",
    )
