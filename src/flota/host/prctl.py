"""Process attributes. Linux's; elsewhere they do nothing."""

from __future__ import annotations

import os
import sys

from flota import libc

SIGKILL = 9
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper(*, now: bool = True) -> None:
    """Orphans among our descendants become our children, whatever sessions they made; or not any more."""
    if sys.platform == "linux":
        libc.call("prctl", PR_SET_CHILD_SUBREAPER, int(now), 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """End with this parent, however it ends; at once when it is gone already."""
    if sys.platform == "linux":
        libc.call("prctl", PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def name_process(name: str) -> None:
    """What `ps -o comm` shows."""
    if sys.platform == "linux":
        libc.call("prctl", PR_SET_NAME, name.encode(), 0, 0, 0)
