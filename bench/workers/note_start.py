"""Records the time at its first line, and exits."""

import time

START = time.monotonic()

import os  # noqa: E402
import sys  # noqa: E402

with open(f"{sys.argv[1]}/{os.getpid()}", "w") as note:
    note.write(str(START))
