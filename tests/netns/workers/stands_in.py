"""Records its variables, then waits for files in the directory STAGE: `finish` makes it succeed, `fail.RANK` makes it
fail in the way that the file says.

A record is written once: a rank that exists twice in one round fails.
"""

import json
import os
import signal
import sys
import time

STAGE, ROUND, RANK = os.environ["STAGE"], os.environ["FLOTA_ROUND"], os.environ["RANK"]
NAMES = ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NODES", "ATTEMPT", "JOB_ID", "MASTER")


def note(kind, **facts):
    """Written atomically: the test waits for it."""
    draft = f"{STAGE}/.{os.getpid()}"
    with open(draft, "w") as file:
        json.dump({"host": os.uname().nodename, "pid": os.getpid(), "at": time.monotonic(), **facts}, file)
    os.link(draft, f"{STAGE}/{kind}.{ROUND}.{RANK}")
    os.unlink(draft)


def stop(*_):
    note("stopped")
    os._exit(0)


def fail(how):
    note("failed")
    print(f"rank {RANK} was told to fail")
    if how.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, how))
    sys.exit(int(how))


signal.signal(signal.SIGTERM, stop)
note("worker", **{name.lower(): os.environ[f"FLOTA_{name}"] for name in NAMES})
while not os.path.exists(f"{STAGE}/finish"):
    try:
        how = open(f"{STAGE}/fail.{RANK}").read()
        os.unlink(f"{STAGE}/fail.{RANK}")
    except FileNotFoundError:
        time.sleep(0.005)
    else:
        fail(how)
