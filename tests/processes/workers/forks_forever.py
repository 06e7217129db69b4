"""A child that forks its successor and ends, again and again: always a process nobody has seen yet."""

import os
import pathlib
import time

if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(0.01)
        if os.fork():
            os._exit(0)
pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
time.sleep(600)
