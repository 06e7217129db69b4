"""Kills every process in a lab when the owner of the lab has exited, in whatever way.

Also a program: `guard.py DIRECTORY DESCRIPTOR …`. Its standard input is a pipe that only the owner has, so end of
file means that the owner has exited. It keeps the namespaces open: otherwise another lab could reuse their numbers.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from collections.abc import Collection


def main(directory: str, descriptors: list[str]) -> None:
    namespaces = {os.fstat(int(descriptor)).st_ino for descriptor in descriptors}
    while os.read(0, 1):
        pass
    end_all(namespaces)
    shutil.rmtree(directory, ignore_errors=True)


def end_all(namespaces: Collection[int]) -> None:
    """Send SIGKILL to every process in these network namespaces, until there is none.

    A process leaves its namespace before its ports are free: wait for its end, and that of all its threads.
    """
    while found := processes_in(namespaces):
        killed = [_kill(pid, namespaces) for pid in found]
        for process in killed:
            if process >= 0:
                ends = select.poll()
                ends.register(process, select.POLLIN)
                ends.poll()
                os.close(process)


def processes_in(namespaces: Collection[int]) -> list[int]:
    """Processes in these network namespaces; a zombie no longer has one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _namespace(int(name)) in namespaces]


def _namespace(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


def _kill(pid: int, namespaces: Collection[int]) -> int:
    """Returns a descriptor of the process that is readable when it has ended; -1 if it has ended before."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    try:
        # Checked again, because now the pid cannot be reused: this kills as root.
        if _namespace(pid) in namespaces:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return process
    except ProcessLookupError:
        pass
    os.close(process)
    return -1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
