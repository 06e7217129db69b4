"""From the start of the command until all of eight workers have reached the first line of the script."""

from __future__ import annotations

from functools import partial

from bench.harness import FLOTA, PADDLE, PLAIN, TORCHRUN, alternate, seconds_to_first_lines
from bench.table import Row, fraction, milliseconds

TURNS = {PLAIN: 11, FLOTA: 11, TORCHRUN: 5, PADDLE: 3}


def measure() -> list[Row]:
    took = alternate({name: (turns, partial(seconds_to_first_lines, name, 8)) for name, turns in TURNS.items()})
    return [
        Row(
            "start to first line, all of 8 workers",
            milliseconds(took[FLOTA]),
            ratio=fraction(took[FLOTA], took[TORCHRUN]),
            bar="<= 1/12 of torchrun",
            met=took[FLOTA] <= took[TORCHRUN] / 12,
            torchrun=milliseconds(took[TORCHRUN]),
            paddle=milliseconds(took.get(PADDLE)),
            plain=milliseconds(took[PLAIN]),
        )
    ]
