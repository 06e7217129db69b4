"""Runs flota with a wrong clock: `python wrong_clock.py SECONDS [arguments of flota …]`; SECONDS < 0: it is slow."""

from __future__ import annotations

import sys
import time

if __name__ == "__main__":
    del sys.path[0]  # this directory; flota is installed
    offset, true_time = float(sys.argv.pop(1)), time.time
    time.time = lambda: true_time() + offset

    from flota.cli.main import main

    sys.exit(main(interpreter=sys.executable))
