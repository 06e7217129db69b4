"""Records its start time for its attempt; then prints a line every 15 seconds, and sleeps in between."""

import sys
import time

from noting import note

note(sys.argv[1], time.monotonic())
for line in range(240):
    print(f"line {line}", flush=True)
    time.sleep(15)
