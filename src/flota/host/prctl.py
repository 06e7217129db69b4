"""Process attributes. Linux only: elsewhere they are not set."""

from __future__ import annotations

import os

from flota import libc

SIGKILL = 9
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper(*, now: bool = True) -> None:
    """Orphans among our descendants become our children, whatever sessions they made. `now=False`: no longer."""
    libc.call("prctl", PR_SET_CHILD_SUBREAPER, int(now), 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Be killed when this parent dies, or exit now if it is dead already."""
    libc.call("prctl", PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def name_process(name: str) -> None:
    """What `ps -o comm` shows."""
    libc.call("prctl", PR_SET_NAME, name.encode(), 0, 0, 0)
