"""Records the microseconds of the slowest call: a heartbeat with a step, one with a number as well, should_stop."""

import sys
import time
from pathlib import Path

import flota

CALLS = 200_000


def microseconds(call):
    for number in range(1000):
        call(number)
    began = time.perf_counter()
    for number in range(CALLS):
        call(number)
    return (time.perf_counter() - began) / CALLS * 1e6


calls = (flota.heartbeat, lambda step: flota.heartbeat(step, loss=0.5), lambda _: flota.should_stop())
Path(sys.argv[1]).write_text(str(max(microseconds(call) for call in calls)))
