"""Trains in steps and phases, and writes down what it does by its own clock: `spends.py [dies|hangs STEP]`. Rank 1 does so after that step of attempt 0.

No rank waits for another. A checkpoint is made after every five steps, and a restarted job goes on from the last one.
"""

import json
import os
import sys
import time

import flota

DEED, DEED_AT = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else ("", -1)
RANK, ATTEMPT, ROLE = os.environ["FLOTA_RANK"], os.environ["FLOTA_ATTEMPT"], os.environ["FLOTA_ROLE"]
STEPS, STEP_TIME = 20, float(os.environ.get("STEP_TIME", "0.1"))
notes = open(f"notes.{ATTEMPT}.{RANK}", "w")  # closed when it dies


def note(what, detail=""):
    """Complete even if this process is killed."""
    notes.write(json.dumps([time.monotonic(), what, detail]) + "\n")
    notes.flush()


def spend(name, seconds):
    note("enter", name)
    with flota.phase(name):
        time.sleep(seconds)
        note("leave", name)


def train(step):
    time.sleep(STEP_TIME * (1 + step % 3))
    if (step, RANK, ATTEMPT) != (DEED_AT, "1", "0"):
        return
    if DEED == "dies":
        note("dies")
        os.kill(os.getpid(), 9)
    elif DEED == "hangs":
        time.sleep(1e6)


def main():
    spend("initialise", 0.3)
    time.sleep(0.2)
    saved = f"saved.{RANK}"
    first = int(open(saved).read()) if os.path.exists(saved) else 0
    for step in range(first, STEPS):
        note("beat", step)
        flota.heartbeat(step, total=STEPS)
        train(step)
        if step % 5 == 4:
            spend("checkpoint", 0.2)
            with open(saved, "w") as file:
                file.write(str(step + 1))
        if step == 7:
            note("enter", "evaluate")
            with flota.phase("evaluate"):
                time.sleep(0.2)
                note("leave", "evaluate")
                spend("checkpoint", 0.1)
                note("enter", "evaluate")
                time.sleep(0.1)
                note("leave", "evaluate")
    note("ends")


if ROLE == "server":
    time.sleep(1e6)
main()
