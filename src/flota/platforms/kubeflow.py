"""Kubeflow's PyTorchJob and TrainJob: they set torchrun's variables, which flota reads as flags.

PyTorchJob also sets RANK, the number of the pod, and WORLD_SIZE, the number of workers. Neither is read. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from flota.platforms import Hints
from flota.platforms.reading import POD_GRACE, Variables


def detect(environ: Mapping[str, str]) -> Hints:
    variables, most = Variables("Kubeflow", environ), environ["PET_NNODES"].rpartition(":")[2]
    if not (most.isascii() and most.isdecimal()):
        raise variables.error("PET_NNODES", "a number or MIN:MAX")
    rank = variables.rank("PET_NODE_RANK", int(most), "PET_NNODES") if environ.get("PET_NODE_RANK") else -1
    return Hints("PET_NNODES", int(most), rank, "PET_NODE_RANK", grace=POD_GRACE)
