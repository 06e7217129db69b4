"""Records its start time, then makes a step per second, with a heartbeat and a line each."""

import sys
import time

from noting import note

import flota

note(sys.argv[1], time.monotonic())
for step in range(3600):
    flota.heartbeat(step, total=3600, loss=1 / (step + 1))
    print(f"step {step}", flush=True)
    time.sleep(1.0)
