"""Deaf to SIGTERM, SIGINT and SIGHUP."""

import os
import pathlib
import signal
import time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
time.sleep(600)
