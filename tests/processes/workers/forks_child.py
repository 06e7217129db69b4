"""Has a child that is deaf to SIGTERM, in its own group."""

import os
import pathlib
import signal
import time

if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
time.sleep(600)
