"""flota on a machine whose clock is wrong: `python wrong_clock.py SECONDS [flota's words …]`, with SECONDS < 0 for slow."""

from __future__ import annotations

import sys
import time

if __name__ == "__main__":
    del sys.path[0]  # this directory; flota is installed
    offset, right_time = float(sys.argv.pop(1)), time.time
    time.time = lambda: right_time() + offset

    from flota.cli.main import main

    sys.exit(main(interpreter=sys.executable))
