"""From the start of the last of 128 nodes, after all others have joined, until all nodes have the roster."""

from __future__ import annotations

import subprocess

from bench import environments
from bench.harness import FLOTA, TORCHRUN, alternate, directory, free_port
from bench.large_job import NODES, first_line, large_job
from bench.processes import running
from bench.table import Row, fraction, milliseconds

COUNT = 128
PROCESSES = 4  # to distribute the handlers over: of 1, 4, 16 and 32, torch is fastest with 4 on two CPUs
BAR = 0.5  # seconds


def measure() -> list[Row]:
    took = alternate({FLOTA: (5, _flota), TORCHRUN: (3, _torch)})
    shown = {
        "what": f"join: start of the last of {COUNT} nodes to the roster on all",
        "flota": milliseconds(took[FLOTA]),
        "ratio": fraction(took[FLOTA], took[TORCHRUN]),
        "torchrun": f"{milliseconds(took[TORCHRUN])} (its handlers)",
    }
    return [
        Row(**shown, bar=f"<= {BAR} s", met=took[FLOTA] <= BAR),
        Row(**shown, bar="<= 1/10 of DynamicRendezvousHandler", met=took[FLOTA] <= took[TORCHRUN] / 10),
    ]


def _flota() -> float:
    with large_job(COUNT, "last") as job:
        return job.after_last


def _torch() -> float:
    command = [environments.TORCH / "bin" / "python", NODES / "torch_handlers.py", free_port(), COUNT, PROCESSES]
    with directory() as here, running([*map(str, command)], here, subprocess.PIPE) as process:
        times = first_line(process, here)
    return times["ended"] - times["last_began"]
