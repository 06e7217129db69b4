"""Runs a daemon and reaps its orphans: `python reaper.py COMMAND…`.

Slurm takes a zombie for a process that still runs, and waits a minute for it. The first process of a container may reap
orphans late.
"""

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36


def main(argv: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.posix_spawnp(argv[0], argv, os.environ)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass  # all have exited


main(sys.argv[1:])
