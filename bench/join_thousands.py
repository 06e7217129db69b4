"""Thousands of nodes that start at once: the time until all have the roster, and how it grows with their number."""

from __future__ import annotations

from functools import partial
from math import log

from bench.harness import alternate
from bench.large_job import large_job
from bench.table import NOT_MEASURED, Row

BARS = {1024: 2.0, 4096: 10.0}  # seconds
FEW, MANY = 256, 4096
STEEPEST = 1.15
TURNS = {FEW: 5, 1024: 3, MANY: 3}


def measure() -> list[Row]:
    took = alternate({str(nodes): (turns, partial(_seconds, nodes)) for nodes, turns in TURNS.items()})
    rows = [
        Row(
            f"join: start of {nodes:,} nodes to the roster on all",
            f"{took[str(nodes)]:.2f} s",
            ratio=NOT_MEASURED,
            bar=f"<= {bar:.0f} s",
            met=took[str(nodes)] <= bar,
        )
        for nodes, bar in BARS.items()
    ]
    exponent = log(took[str(MANY)] / took[str(FEW)]) / log(MANY / FEW)
    few = f"{took[str(FEW)]:.2f} s for {FEW}"
    growth = Row(f"… growth from {FEW}", few, f"n^{exponent:.2f}", f"<= n^{STEEPEST}", exponent <= STEEPEST)
    return [*rows, growth]


def _seconds(nodes: int) -> float:
    with large_job(nodes) as job:
        return job.seconds
