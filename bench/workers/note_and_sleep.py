"""Records its start time for its attempt, and sleeps until it is stopped."""

import time

START = time.monotonic()

import sys  # noqa: E402

from noting import note  # noqa: E402

note(sys.argv[1], START)
time.sleep(3600)
