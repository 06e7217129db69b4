"""What a heartbeat costs a training step, when nobody listens and under flota. The dearest of three calls counts."""

from __future__ import annotations

from bench.harness import FLOTA, PLAIN, WORKERS, alternate, directory, launch, launch_plainly
from bench.processes import finish
from bench.table import Row

UNHEARD, HEARD = 5.0, 20.0  # microseconds
SCRIPT = WORKERS / "beat.py"


def measure() -> list[Row]:
    took = alternate(
        {PLAIN: (3, lambda: _microseconds(PLAIN)), FLOTA: (3, lambda: _microseconds(FLOTA))},
    )
    ratio = f"{took[FLOTA] / took[PLAIN]:.1f}x as without flota"
    return [
        Row(
            "a heartbeat, when flota listens",
            f"{took[FLOTA]:.1f} µs",
            ratio=ratio,
            bar=f"<= {HEARD:.0f} µs; <= {UNHEARD:.0f} µs when nobody does",
            met=took[FLOTA] <= HEARD and took[PLAIN] <= UNHEARD,
            plain=f"{took[PLAIN]:.1f} µs",
        )
    ]


def _microseconds(launcher: str) -> float:
    with directory() as here:
        note = here / "note"
        command = launch_plainly(1, SCRIPT, note) if launcher == PLAIN else launch(launcher, 1, SCRIPT, note)
        finish(command, here)
        return float(note.read_text())
