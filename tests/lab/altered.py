"""Runs flota with a wrong clock, or another lease: `python altered.py OFFSET LEASE [arguments of flota …]`. Both are in
seconds. OFFSET < 0: the clock is slow; LEASE 0: flota's own.
"""

from __future__ import annotations

import sys
import time

if __name__ == "__main__":
    del sys.path[0]  # this directory; flota is installed
    offset, lease, true_time = float(sys.argv.pop(1)), int(sys.argv.pop(1)), time.time
    time.time = lambda: true_time() + offset

    from flota.cluster import lease_times

    if lease:
        lease_times.lease_of = lambda nodes: lease  # noqa: ARG005  named as there

    from flota.cli.main import main

    sys.exit(main(interpreter=sys.executable))
