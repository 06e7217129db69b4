"""Kills process trees completely: the loop ends only when the kernel reports that no child is left."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

SIGKILL, SIGSTOP = 9, 19
UNSEEN_LIMIT = 5.0  # seconds to wait for children that cannot be listed, if /proc is not that of our pid namespace
other_children: set[int] = set()  # of this process, which are not part of a round: added when they start


def kill_descendants(*, under_init: bool = False) -> None:
    """Kill every descendant of this process, which must be a subreaper, until only `other_children` and their
    descendants are left.

    `under_init`: the node is PID 1 of its namespace, so every process here is one of its descendants.
    """
    can_list = has_own_proc()
    give_up = time.monotonic() + UNSEEN_LIMIT
    while True:
        others = descendants_of(os.getpid(), spared=other_children) if can_list else []
        for pid in others:
            kill(pid)
        if not can_list and under_init:
            kill(-1)
        reaped = 0
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                reaped += 1
        except ChildProcessError:
            return
        # A list is complete if no child has exited since it was begun: it would be reaped now.
        if other_children and can_list and not others and not reaped:
            return
        if not can_list and time.monotonic() > give_up:
            return
        time.sleep(0.0005)


def kill_tree(pid: int) -> None:
    """Kill a child and its descendants, and reap it."""
    try:
        # If it was already reaped as an orphan, its pid may belong to another process.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return
    kill(pid, SIGSTOP)  # so that it starts no process, and remains the parent of its children
    for one in [*descendants_of(pid), pid]:
        kill(one)
    os.waitpid(pid, 0)


def kill_inherited(session: int) -> None:
    """Kill the children of this process that belong to a session, and their descendants. They were started by a
    process below this one, which has exited."""
    while inherited := [pid for pid in children_of(os.getpid()) if stat_fields(pid)[3:4] == [str(session)]]:
        for pid in inherited:
            kill_tree(pid)  # also reaps the process that led the session


def has_exited(child: int) -> bool:
    """Whether a child has exited, reaped or not."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def exited_child() -> int:
    """Return the pid of a child that has exited and is not reaped yet; 0 if there is none."""
    try:
        exited = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return exited.si_pid if exited else 0


def has_own_proc() -> bool:
    """Whether /proc shows our pid namespace. If not, its pids are not ours."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def descendants_of(pid: int, enough: int = sys.maxsize, spared: Collection[int] = ()) -> list[int]:
    """Return the descendants of a process, except `spared` and theirs. The search stops when `enough` are found."""
    found: list[int] = []
    queue = [pid]
    while queue and len(found) < enough:
        children = [child for child in children_of(queue.pop()) if child not in spared]
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


def stat_fields(pid: int | str) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent and so on; empty if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def kill(pid: int, signal: int = SIGKILL) -> None:
    """Send a signal to a process, or to the process group PGID given as -PGID."""
    try:
        os.kill(pid, signal)
    except OSError:
        pass  # already gone, or it changed its user
