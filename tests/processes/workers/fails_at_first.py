"""In round 0: notes that it is there, waits until it is told to go, and fails. Later: ends well."""

import os
import sys
import time

if os.environ["FLOTA_ROUND"] == "0":
    open("here", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.005)
    sys.exit(3)
