"""Ends all that runs in a lab when the lab's owner is gone, however it went.

Also a program: `guard.py DIRECTORY DESCRIPTOR …`. Its standard input is a pipe that only the owner holds, so its end is
the owner's end. It holds the namespaces open: a number of one that is gone may belong to another lab a moment later.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Collection


def main(directory: str, descriptors: list[str]) -> None:
    namespaces = {os.fstat(int(descriptor)).st_ino for descriptor in descriptors}
    while os.read(0, 1):
        pass
    end_all(namespaces)
    shutil.rmtree(directory, ignore_errors=True)


def end_all(namespaces: Collection[int]) -> None:
    """SIGKILL to every process in these network namespaces, until there is none."""
    while found := processes_in(namespaces):
        for pid in found:
            _kill(pid, namespaces)
        time.sleep(0.001)


def processes_in(namespaces: Collection[int]) -> list[int]:
    """Living processes whose network is one of these; a zombie has no network any more."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _namespace(int(name)) in namespaces]


def _namespace(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


def _kill(pid: int, namespaces: Collection[int]) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Asked again now that the number cannot change hands: this kills as root.
        if _namespace(pid) in namespaces:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(process)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
