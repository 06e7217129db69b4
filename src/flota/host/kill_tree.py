"""Ends a process tree for certain: only the kernel's word that there is no child left ends the loop."""

from __future__ import annotations

import os
import sys
import time

SIGKILL = 9
BLIND_LIMIT = 5.0  # seconds to wait for children that cannot be seen, where /proc is not ours


def kill_descendants(*, under_init: bool = False) -> None:
    """Kill every descendant of this process, which must be a subreaper, until none is left.

    `under_init`: the node is PID 1 of its namespace, so that everybody here is its.
    """
    seeing = has_own_proc()
    give_up = time.monotonic() + BLIND_LIMIT
    while True:
        for pid in descendants_of(os.getpid()) if seeing else ():
            kill(pid)
        if not seeing and under_init:
            kill(-1)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if not seeing and time.monotonic() > give_up:
            return
        time.sleep(0.0005)


def reap_orphans(shepherds: set[int]) -> None:
    """Reap what came to us as an orphan: a node that is PID 1, or whose shepherd died, is everybody's parent."""
    while True:
        try:
            exited = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if exited is None or exited.si_pid in shepherds:
            return  # the shepherd's own end is read from its report pipe
        os.waitpid(exited.si_pid, 0)


def has_own_proc() -> bool:
    """Whether /proc belongs to our pid namespace. If not, its numbers name strangers."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def descendants_of(pid: int, enough: int = sys.maxsize) -> list[int]:
    """All processes below one, found from parent to child; no more are looked for when there are `enough`."""
    found: list[int] = []
    queue = [pid]
    while queue and len(found) < enough:
        children = children_of(queue.pop())
        found += children
        queue += children
    return found


def children_of(pid: int) -> list[int]:
    children: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return children
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:
                children += [int(child) for child in listed.read().split()]
        except OSError:
            continue
    return children


def stat_fields(pid: int) -> list[str]:
    """What /proc says of a process behind its name: its state, its parent and more; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def kill(pid: int) -> None:
    try:
        os.kill(pid, SIGKILL)
    except OSError:
        pass  # gone already, or about to be
