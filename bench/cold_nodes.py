"""Sixteen nodes of one worker each, started at once on one machine: the time to the first line of the last worker."""

from __future__ import annotations

from functools import partial

from bench.harness import (
    FLOTA,
    PLAIN,
    TORCHRUN,
    alternate,
    directory,
    free_port,
    last_start,
    launch,
    noting_script,
    seconds_to_first_lines,
    side_by_side,
)
from bench.processes import finish
from bench.table import Row, fraction, milliseconds

COUNT = 16


def measure() -> list[Row]:
    took = alternate(
        {
            PLAIN: (5, partial(seconds_to_first_lines, PLAIN, COUNT)),
            FLOTA: (5, partial(_seconds, FLOTA)),
            TORCHRUN: (3, partial(_seconds, TORCHRUN)),
        }
    )
    return [
        Row(
            f"start to first line, {COUNT} nodes of 1 worker",
            milliseconds(took[FLOTA]),
            ratio=fraction(took[FLOTA], took[TORCHRUN]),
            bar="<= 1/8 of torchrun",
            met=took[FLOTA] <= took[TORCHRUN] / 8,
            torchrun=milliseconds(took[TORCHRUN]),
            plain=milliseconds(took[PLAIN]),
        )
    ]


def _seconds(launcher: str) -> float:
    place = f"localhost:{free_port()}"
    where = {
        FLOTA: ("--master", place),
        TORCHRUN: ("--rdzv-backend", "c10d", "--rdzv-id", "bench", "--rdzv-endpoint", place),
    }
    with directory() as here:
        node = launch(launcher, 1, "--nnodes", COUNT, *where[launcher], *noting_script(here))
        began = finish(side_by_side(COUNT, node), here).began
        return last_start(here, COUNT) - began
