"""Records the microseconds of the slowest call: heartbeat with a step, also with a number, phase, or should_stop."""

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


def mark(_step):
    with flota.phase("checkpoint"):
        pass


calls = (flota.heartbeat, lambda step: flota.heartbeat(step, loss=0.5), mark, lambda _: flota.should_stop())
Path(sys.argv[1]).write_text(str(max(microseconds(call) for call in calls)))
