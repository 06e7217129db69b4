"""Azure ML with its PyTorch distribution: RANK and WORLD_SIZE count processes, NODE_RANK machines. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.spec import MachineShare
from flota.platforms import Hints
from flota.platforms.reading import Variables, as_name

GRACE = 28.0  # SIGKILL follows after 30 s


def detect(environ: Mapping[str, str]) -> Hints:
    variables = Variables("Azure ML", environ)
    machines = variables.number("AZUREML_NODE_COUNT", 1)
    machine = variables.rank("NODE_RANK", machines, "AZUREML_NODE_COUNT")
    world = variables.number("WORLD_SIZE", 1) if environ.get("WORLD_SIZE") else machines
    hints = Hints("AZUREML_NODE_COUNT", machines, machine, "NODE_RANK")
    if world % machines:
        raise variables.error("WORLD_SIZE", f"a multiple of AZUREML_NODE_COUNT={machines}")
    if world > machines:
        rank, local_size = variables.rank("RANK", world, "WORLD_SIZE"), world // machines
        local_rank = variables.rank("LOCAL_RANK", local_size, "WORLD_SIZE / AZUREML_NODE_COUNT")
        share = MachineShare(local_rank, local_size, machine, machines)
        hints = Hints("WORLD_SIZE", world, rank, "RANK", workers=1, workers_source="WORLD_SIZE", share=share)
    return hints._replace(
        master=variables.place("MASTER_ADDR", "MASTER_PORT") if hints.nodes > 1 else "",
        master_source="MASTER_ADDR",
        job_id=as_name(environ.get("AZUREML_RUN_ID", "")),
        job_source="AZUREML_RUN_ID",
        grace=GRACE,
    )
