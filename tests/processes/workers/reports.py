"""Reports steps and numbers, prints a line per step, and ends when the file `finish` is there. Fails with `fail.RANK`."""

import os
import sys
import time
from pathlib import Path

import flota

STAGE, RANK = Path(os.environ["STAGE"]), os.environ["RANK"]
step = 0
while not (STAGE / "finish").exists():
    if (STAGE / f"fail.{RANK}").exists():
        (STAGE / f"fail.{RANK}").unlink()
        sys.exit(3)
    step += 1
    flota.heartbeat(step, total=1000, loss=1 / step)
    print(f"rank {RANK} step {step}", flush=True)
    (STAGE / f"step.{RANK}").write_text(str(step))
    time.sleep(0.05)
