"""The process that removes the directory of a node's etcd if the node is killed. It exists as long as the directory."""

from __future__ import annotations

import os
import select
import shutil
import time

from flota.etcd.private_directory import is_unlocked
from flota.host.kill_tree import kill, other_children
from flota.host.process_start import fork_with_title
from flota.host.shepherd import close_other_fds
from flota.host.signals import forget_wakeup

TITLE = b"etcd cleaner"  # without the word flota, as the shepherd's: `pkill flota` must not kill it with the node
GRACE = 1.0  # seconds for etcd to exit, which the kernel asks to when its node dies; and again after SIGKILL


class CleanerProcess:
    """`path`: the directory, which is locked by the node and by its etcd."""

    def __init__(self, path: str) -> None:
        node = os.getpid()
        try:
            self._pid, _ = fork_with_title(TITLE)
        except OSError:
            self._pid = -1  # too many processes: the next flota removes what is left
            return
        if self._pid == 0:
            _clean_up_after(node, path)
        other_children.add(self._pid)

    def stop(self) -> None:
        """After the directory was removed."""
        if self._pid > 0:
            other_children.discard(self._pid)
            kill(self._pid)
            try:
                os.waitpid(self._pid, 0)
            except ChildProcessError:
                pass  # reaped as an orphan
            self._pid = -1


def _clean_up_after(node: int, path: str) -> None:
    try:
        os.setsid()
        forget_wakeup()
        for stream in range(3):
            os.close(stream)  # those who read the node's output must see its end
        close_other_fds(set())
        _wait_for_death(node)
        if not _wait_for_end(path):
            for pid in filter(str.isdecimal, os.listdir("/proc")):
                if _runs_in(int(pid), path):
                    kill(int(pid))
        if _wait_for_end(path):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os._exit(0)


def _wait_for_death(parent: int) -> None:
    try:
        end = os.pidfd_open(parent)
    except ProcessLookupError:
        return
    if os.getppid() == parent:  # not another process with its pid
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.poll()


def _wait_for_end(path: str) -> bool:
    """Wait until no process uses the directory. Returns False if one still does."""
    give_up = time.monotonic() + GRACE
    while not (ended := is_unlocked(path)) and os.path.exists(path) and time.monotonic() < give_up:
        time.sleep(0.02)
    return ended


def _runs_in(pid: int, path: str) -> bool:
    """Whether the process is the etcd of this directory."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            return os.fsencode(f"{path}/") in words.read()
    except OSError:
        return False
