"""Kubeflow's PaddleJob: it sets variables of Paddle's launcher, which flota reads as flags. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.platforms import Hints
from flota.platforms.reading import POD_GRACE, Variables


def detect(environ: Mapping[str, str]) -> Hints:
    nodes = Variables("PaddleJob", environ).number("PADDLE_NNODES", 1)
    return Hints("PADDLE_NNODES", nodes, -1, master=environ["PADDLE_MASTER"], grace=POD_GRACE)
