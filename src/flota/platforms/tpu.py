"""TPU slices on Google Kubernetes Engine, one or several. Each host runs one worker, which uses all its chips. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint, split_endpoint
from flota.platforms import Hints
from flota.platforms.reading import OWN_PORT, POD_GRACE, Variables, as_name


def detect(environ: Mapping[str, str]) -> Hints:
    variables, hosts = Variables("TPU", environ), environ["TPU_WORKER_HOSTNAMES"].split(",")
    rank = variables.rank("TPU_WORKER_ID", len(hosts), "the hosts in TPU_WORKER_HOSTNAMES")
    slices, first = 1, hosts[0]
    if environ.get("MEGASCALE_NUM_SLICES"):
        slices = variables.number("MEGASCALE_NUM_SLICES", 1)
        rank += len(hosts) * variables.rank("MEGASCALE_SLICE_ID", slices, "MEGASCALE_NUM_SLICES")
        first = split_endpoint(environ.get("MEGASCALE_COORDINATOR_ADDRESS", ""))[0] or (first if slices == 1 else "")
    nodes = len(hosts) * slices
    return Hints(
        *("TPU_WORKER_HOSTNAMES", nodes, rank, "TPU_WORKER_ID"),
        master=endpoint(first, str(OWN_PORT)) if first and nodes > 1 else "",
        workers=1,
        workers_source="TPU_WORKER_ID",
        job_id=as_name(environ.get("TPU_NAME", "")),
        job_source="TPU_NAME",
        grace=POD_GRACE,
    )
