"""Counts steps, says which, and asks whether to stop; in ways that its arguments name.

saves: when told to stop, it notes the step and ends. calls: it has a callback for that. ignores: it only counts.
stalls: it says that it listens, and does not. fails: when told to stop, it ends with 3.
"""

import os
import sys
import time

import flota

HOW = sys.argv[1] if os.environ["FLOTA_RANK"] == "0" or len(sys.argv) < 3 else sys.argv[2]
RANK = os.environ["FLOTA_RANK"]
step = 0


def save():
    with open(f"saved.{RANK}", "w") as file:
        file.write(str(step))


if HOW == "calls":
    flota.on_stop(save)
while True:
    if HOW != "ignores":
        flota.heartbeat(step)
    if HOW in ("saves", "stalls", "fails") and flota.should_stop() and HOW != "stalls":
        save()
        sys.exit(3 if HOW == "fails" else 0)
    if step == 5:
        open(f"going.{RANK}", "w").close()
    step += 1
    time.sleep(0.01)
