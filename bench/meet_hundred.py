"""From the start of the last of 128 nodes, all others having joined, to the roster at all of them."""

from __future__ import annotations

import subprocess

from bench import environments
from bench.harness import FLOTA, TORCHRUN, alternate, directory, free_port
from bench.meeting import NODES, first_line, meeting
from bench.processes import running
from bench.table import Row, fraction, milliseconds

COUNT = 128
PROCESSES = 4  # that the handlers are shared out among: of 1, 4, 16 and 32 torch is fastest with so many on two CPUs
BAR = 0.5  # seconds


def measure() -> list[Row]:
    took = alternate({FLOTA: (5, _flota), TORCHRUN: (3, _torch)})
    shown = {
        "what": f"last of {COUNT} nodes to the roster at all",
        "flota": milliseconds(took[FLOTA]),
        "ratio": fraction(took[FLOTA], took[TORCHRUN]),
        "torchrun": f"{milliseconds(took[TORCHRUN])} (its handlers)",
    }
    return [
        Row(**shown, bar=f"<= {BAR} s", met=took[FLOTA] <= BAR),
        Row(**shown, bar="<= 1/10 of DynamicRendezvousHandler", met=took[FLOTA] <= took[TORCHRUN] / 10),
    ]


def _flota() -> float:
    with meeting(COUNT, "last") as met:
        return met.after_last


def _torch() -> float:
    command = [environments.TORCH / "bin" / "python", NODES / "torch_handlers.py", free_port(), COUNT, PROCESSES]
    with directory() as here, running([*map(str, command)], here, subprocess.PIPE) as process:
        times = first_line(process, here)
    return times["ended"] - times["last_began"]
