"""Rank FAIL_RANK fails as told (raise, exit code, or signal) on attempts up to FAIL_UNTIL; the others wait or end."""

import os
import pathlib
import sys
import time

rank, attempt = int(os.environ["RANK"]), int(os.environ["FLOTA_ATTEMPT"])
how, until = os.environ.get("FAIL_HOW", "raise"), int(os.environ.get("FAIL_UNTIL", "99"))
pathlib.Path(f"ready.{rank}.{attempt}").touch()
if attempt > until:
    print(f"rank {rank} ends well on attempt {attempt}")
    sys.exit(0)
if rank == int(os.environ.get("FAIL_RANK", "1")):
    print(f"rank {rank} is about to fail on attempt {attempt}")
    if how == "raise":
        raise ValueError(f"planned failure of rank {rank}")
    if how.startswith("SIG"):
        import signal

        os.kill(os.getpid(), getattr(signal, how))
    sys.exit(int(how))
time.sleep(600)
