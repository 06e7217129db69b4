"""Attributes of this process: subreaper, name, death signal (Linux only: elsewhere they are not set), open files.

The master of thousands of nodes needs more open files than a shell gives; workers get the shell's limit back, because
some programs walk through every number below it.
"""

from __future__ import annotations

import os

from flota import libc

SIGKILL = 9
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
given_open_files: list[tuple[int, int]] = []  # the limits before they were raised; empty when they were not


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


def raise_open_files(wanted: int) -> None:
    """As far as the system allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        given_open_files.append((soft, hard))


def restore_open_files() -> None:
    if given_open_files:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, given_open_files[0])
