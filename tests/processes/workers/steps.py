"""Tells its steps, of which those of rank 1 take three times as long until the file `fair` is there; ends at `finish`."""

import os
import time
from pathlib import Path

import flota

STAGE = Path(os.environ["STAGE"])
step = 0
while not (STAGE / "finish").exists():
    slow = os.environ["RANK"] == "1" and not (STAGE / "fair").exists()
    time.sleep(0.3 if slow else 0.1)
    step += 1
    flota.heartbeat(step)
