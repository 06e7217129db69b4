"""Interpreters that wait below the node itself, not below a shepherd: they must outlive a round."""

from __future__ import annotations

import os

from flota.host.kill_tree import descendants_of, kill
from flota.host.prctl import become_subreaper
from flota.host.process_start import ProcessSpec, execute


def start(process: ProcessSpec) -> int:
    become_subreaper()  # the shepherds that it forks are to be the node's children
    return execute(process, own_session=True)


def end(pid: int) -> None:
    """End it, and everything that it has started."""
    try:
        # If it was reaped already, as an orphan, its pid may belong to another process.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OSError):
        return
    for one in [*descendants_of(pid), pid]:
        kill(one)
    os.waitpid(pid, 0)
