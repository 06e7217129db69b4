"""Process attributes. Linux's; elsewhere they do nothing."""

from __future__ import annotations

import sys

from flota import libc

PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans among our descendants become our children, whatever sessions they made."""
    if sys.platform == "linux":
        libc.call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def name_process(name: str) -> None:
    """What `ps -o comm` shows."""
    if sys.platform == "linux":
        libc.call("prctl", PR_SET_NAME, name.encode(), 0, 0, 0)
