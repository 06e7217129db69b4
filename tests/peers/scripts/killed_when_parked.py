"""On the first attempt rank 1 is killed when flota has said the words in the first argument; on the next the script in
the second argument runs in this one's place.
"""

import glob
import os
import runpy
import signal
import sys
import time

import flota

if os.environ["FLOTA_ATTEMPT"] == "0":
    flota.heartbeat(1)
    # The node opens its own log after it has started the workers.
    own_logs = os.environ["FLOTA_LOG_DIR"] + "/default.*.log"
    while not any(f"flota] {sys.argv[1]}" in open(log).read() for log in glob.glob(own_logs)):
        time.sleep(0.1)
    if os.environ["FLOTA_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
sys.argv[:2] = []
print("MODULES", *sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "paddle", "jax", "tensorflow"}))
runpy.run_path(sys.argv[0], run_name="__main__")
