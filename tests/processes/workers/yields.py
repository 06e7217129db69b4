"""Counts steps, says which, and asks whether to stop; in ways that its arguments name, one for all ranks or one each.

saves: when told to stop, it notes the step and ends. calls: it has a callback for that; both: it has one, and asks.
threads: it counts in a thread. silent: it has a callback, and tells no steps. epochs: its steps begin anew.
raises, lingers: its callback fails; or takes three seconds. handles: it has a handler of its own for SIGTERM, too.
ignores: it only counts. stalls: it says that it listens, and does not. fails: when told to stop, it ends with 3.
dies: it ends with 3 after some steps. late: a SIGTERM comes when its interpreter tidies up.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import flota

RANK = os.environ["FLOTA_RANK"]
HOW = sys.argv[1] if RANK == "0" or len(sys.argv) < 3 else sys.argv[2]
step = 0


def save():
    note("begun")
    if HOW == "raises":
        raise OSError("the disk is full")
    if HOW == "lingers":
        time.sleep(3)
    note("saved")


def note(what):
    with open(f"{what}.{RANK}", "w") as file:
        file.write(str(step))


def handle(*_):
    note("handled")
    sys.exit(0)


def end_a_helper():
    helper = subprocess.Popen(["sleep", "60"])
    helper.terminate()
    assert helper.wait(5) == -signal.SIGTERM


def count():
    global step
    while True:
        if HOW not in ("ignores", "silent"):
            flota.heartbeat(step % 7 if HOW == "epochs" else step)
        if HOW in ("saves", "both", "epochs", "stalls", "fails") and flota.should_stop() and HOW != "stalls":
            if HOW == "both":
                end_a_helper()
            note("asked" if HOW == "both" else "saved")
            sys.exit(3 if HOW == "fails" else 0)
        if step == 20:
            note("going")
        if step == 40 and HOW == "dies":
            sys.exit(3)
        step += 1
        time.sleep(0.01)


if HOW == "handles":
    signal.signal(signal.SIGTERM, handle)


class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):  # noqa: B008
        kill(pid, number)


if HOW == "late":
    late = Late()
if HOW in ("calls", "both", "threads", "silent", "raises", "lingers", "handles", "dies", "late"):
    flota.on_stop(save)
if HOW == "threads":
    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
count()
