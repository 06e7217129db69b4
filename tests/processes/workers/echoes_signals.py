"""Prints each signal it gets, and ends on SIGTERM with code 0."""

import os
import pathlib
import signal
import sys
import time


def show(number, _frame):
    print("got", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(0)


for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP"):
    signal.signal(getattr(signal, name), show)
pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
while True:
    time.sleep(600)
