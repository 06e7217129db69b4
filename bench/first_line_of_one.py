"""From the start of the command to the first line of the script: what users wait for at every start."""

from __future__ import annotations

from functools import partial

from bench.environments import ROOT
from bench.harness import FLOTA, PADDLE, PLAIN, TORCHRUN, alternate, seconds_to_first_lines
from bench.table import Row, fraction, milliseconds

CONFIGURED = "flota with a pyproject.toml"


def measure() -> list[Row]:
    took = alternate(
        {
            PLAIN: (21, partial(seconds_to_first_lines, PLAIN, 1)),
            FLOTA: (21, partial(seconds_to_first_lines, FLOTA, 1)),
            CONFIGURED: (21, partial(seconds_to_first_lines, FLOTA, 1, ROOT / "pyproject.toml")),
            TORCHRUN: (5, partial(seconds_to_first_lines, TORCHRUN, 1)),
            PADDLE: (3, partial(seconds_to_first_lines, PADDLE, 1)),
        }
    )
    peers = {
        "torchrun": milliseconds(took[TORCHRUN]),
        "paddle": milliseconds(took.get(PADDLE)),
        "plain": milliseconds(took[PLAIN]),
    }
    rows = []
    for what, flota in (("1 worker", took[FLOTA]), ("1 worker, with a pyproject.toml", took[CONFIGURED])):
        of_torchrun, of_plain = flota / took[TORCHRUN], flota / took[PLAIN]
        shown = {"what": f"start to first line, {what}", "flota": milliseconds(flota), **peers}
        ratio = fraction(flota, took[TORCHRUN])
        rows.append(Row(**shown, ratio=ratio, bar="<= 1/30 of torchrun", met=of_torchrun <= 1 / 30))
        rows.append(Row(**shown, ratio=f"{of_plain:.2f}x plain", bar="<= 3.5x plain python", met=of_plain <= 3.5))
    return rows
