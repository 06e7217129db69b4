"""Reports step 1240 of 5000 until a file `go` exists, on attempt 0 of a job that is to restart until `fail` exists.

Its arguments are lines of Python, which are executed between two heartbeats.
"""

import os
import sys
import time

import flota

RANK, ATTEMPT = os.environ["RANK"], os.environ["FLOTA_ATTEMPT"]


def wait_for(name):
    while not os.path.exists(name):
        flota.heartbeat(1240, total=5000, loss=0.213)
        time.sleep(0.02)


for line in sys.argv[1:]:
    exec(line)
wait_for("go")
