"""A job of eight workers whose script exits at once: the time that the launcher itself takes, from start to exit."""

from __future__ import annotations

from functools import partial

from bench.harness import FLOTA, PADDLE, PLAIN, TORCHRUN, WORKERS, alternate, directory, launch, launch_plainly
from bench.processes import finish
from bench.table import Row, fraction, milliseconds

TURNS = {PLAIN: 11, FLOTA: 11, TORCHRUN: 5, PADDLE: 3}


def measure() -> list[Row]:
    took = alternate({name: (turns, partial(_seconds, name)) for name, turns in TURNS.items()})
    return [
        Row(
            "whole job, 8 workers that exit at once",
            milliseconds(took[FLOTA]),
            ratio=fraction(took[FLOTA], took[TORCHRUN]),
            bar="<= 1/12 of torchrun",
            met=took[FLOTA] <= took[TORCHRUN] / 12,
            torchrun=milliseconds(took[TORCHRUN]),
            paddle=milliseconds(took.get(PADDLE)),
            plain=milliseconds(took[PLAIN]),
        )
    ]


def _seconds(launcher: str) -> float:
    script = WORKERS / "end.py"
    with directory() as here:
        command = launch_plainly(8, script) if launcher == PLAIN else launch(launcher, 8, script)
        return finish(command, here).seconds
