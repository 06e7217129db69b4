"""Alibaba's PAI-DLC: RANK and WORLD_SIZE count machines. It has no name of its own except in MASTER_ADDR. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.platforms import Hints
from flota.platforms.reading import POD_GRACE, Variables, as_name


def detect(environ: Mapping[str, str]) -> Hints | None:
    job = environ["MASTER_ADDR"].partition(".")[0].partition("-")[0]
    if not job.startswith("dlc"):
        return None
    variables = Variables("PAI-DLC", environ)
    nodes = variables.number("WORLD_SIZE", 1)
    return Hints(
        *("WORLD_SIZE", nodes, variables.rank("RANK", nodes, "WORLD_SIZE"), "RANK"),
        master=variables.place("MASTER_ADDR", "MASTER_PORT") if nodes > 1 else "",
        master_source="MASTER_ADDR",
        workers=variables.optional("NPROC_PER_NODE"),
        workers_source="NPROC_PER_NODE",
        job_id=as_name(job),
        job_source="MASTER_ADDR",
        grace=POD_GRACE,
    )
