"""The cost of a heartbeat or a phase, with and without flota. The slowest of four calls counts."""

from __future__ import annotations

from bench.harness import FLOTA, PLAIN, WORKERS, alternate, directory, launch, launch_plainly
from bench.processes import finish
from bench.table import Row

WITHOUT, UNDER_FLOTA = 5.0, 20.0  # microseconds
SCRIPT = WORKERS / "beat.py"


def measure() -> list[Row]:
    took = alternate(
        {PLAIN: (3, lambda: _microseconds(PLAIN)), FLOTA: (3, lambda: _microseconds(FLOTA))},
    )
    ratio = f"{took[FLOTA] / took[PLAIN]:.1f}x without flota"
    return [
        Row(
            "a heartbeat, under flota",
            f"{took[FLOTA]:.1f} µs",
            ratio=ratio,
            bar=f"<= {UNDER_FLOTA:.0f} µs; <= {WITHOUT:.0f} µs without flota",
            met=took[FLOTA] <= UNDER_FLOTA and took[PLAIN] <= WITHOUT,
            plain=f"{took[PLAIN]:.1f} µs",
        )
    ]


def _microseconds(launcher: str) -> float:
    with directory() as here:
        note = here / "note"
        command = launch_plainly(1, SCRIPT, note) if launcher == PLAIN else launch(launcher, 1, SCRIPT, note)
        finish(command, here)
        return float(note.read_text())
