"""Deaf, with a child, a session, and a daemon."""

import os
import pathlib
import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(3):
    if os.fork() == 0:
        if number:
            os.setsid()
        if number == 2 and os.fork():
            os._exit(0)
        time.sleep(600)
pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
time.sleep(600)
