"""Leaves a daemon: forked twice, own session, wiped environment, deaf to SIGTERM."""

import os
import pathlib
import sys
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
        os.execve(sys.executable, [sys.executable, "-c", code], {})
    os._exit(0)
os.wait()
pathlib.Path(f"ready.{os.environ['RANK']}.{os.environ['FLOTA_ATTEMPT']}").touch()
time.sleep(600)
