"""Records its start time, then makes 20 steps per second, with a heartbeat each and a line for every tenth."""

import sys
import time

from noting import note

import flota

note(sys.argv[1], time.monotonic())
for step in range(3600 * 20):
    flota.heartbeat(step)
    if step % 10 == 0:
        print(f"step {step}", flush=True)
    time.sleep(0.05)
