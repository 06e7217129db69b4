"""Has a child in a session of its own, deaf to SIGTERM."""

import os
import pathlib
import signal
import time

if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
time.sleep(600)
