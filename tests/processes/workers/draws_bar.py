"""Draws a progress bar as tqdm does, `\\r` before each state. Half way it waits for the file `go`."""

import os
import sys
import time

for percent in range(0, 101, 10):
    sys.stderr.write(f"\rtraining: {percent:3d}%|")
    if percent == 50:
        while not os.path.exists("go"):
            time.sleep(0.01)
sys.stderr.write("\n")
