"""The cost of a snapshot of 1 GB, compared with torch's own copy between tensors; and of a step that is not saved."""

from __future__ import annotations

from bench import environments
from bench.harness import WORKERS, directory
from bench.processes import finish
from bench.table import Row

LEAST_RATIO, SKIPPED = 0.8, 5.0  # of torch's speed; microseconds
MEMORY = "8G"  # for three buffers of 1 GB


def measure() -> list[Row]:
    with directory() as here:
        note = here / "note"
        flota = [environments.TORCH / "bin" / "flota", "--max_restart", "1", "--snapshot_memory", MEMORY]
        finish([str(word) for word in (*flota, "--log_dir", "log", WORKERS / "snapshot.py", note)], here)
        copy, save, skipped = map(float, note.read_text().split())
    return [
        Row(
            "flota.snapshot of 1 GB in torch",
            f"{save:.2f} s",
            ratio=f"{copy / save:.2f}x of torch's copy",
            bar=f">= {LEAST_RATIO}x of torch's copy",
            met=copy / save >= LEAST_RATIO,
            plain=f"{copy:.2f} s",
        ),
        Row(
            "flota.snapshot, a step that is not saved",
            f"{skipped:.2f} µs",
            ratio="",
            bar=f"<= {SKIPPED:.0f} µs",
            met=skipped <= SKIPPED,
        ),
    ]
