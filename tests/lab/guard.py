"""Kills every process in a lab when the owner of the lab has exited, in whatever way.

Also a program: `guard.py DIRECTORY DESCRIPTOR …`. Its standard input is a pipe that only the owner has, so end of
file means that the owner has exited. It keeps the namespaces open: otherwise another lab could reuse their numbers.
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
    """Send SIGKILL to every process in these network namespaces, until there is none."""
    while found := processes_in(namespaces):
        for pid in found:
            _kill(pid, namespaces)
        time.sleep(0.001)


def processes_in(namespaces: Collection[int]) -> list[int]:
    """Processes in these network namespaces; a zombie no longer has one."""
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
        # Checked again, because now the pid cannot be reused: this kills as root.
        if _namespace(pid) in namespaces:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(process)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
