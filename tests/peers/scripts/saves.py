"""Trains until it is asked to stop, and saves then: `saves.py DIRECTORY`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import flota

directory = Path(sys.argv[1])
rank = os.environ["FLOTA_RANK"]
(directory / f"started.{rank}.{os.environ['FLOTA_ROUND']}").write_text(str(os.getpid()))
step = 0
while not flota.should_stop():
    step += 1
    flota.heartbeat(step)
    time.sleep(0.05)
time.sleep(1)  # longer than Ray waits before it kills
(directory / f"saved.{rank}").touch()
