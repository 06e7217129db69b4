"""The process attributes that Python has no call for. Linux's; elsewhere they do nothing."""

from __future__ import annotations

import sys

# The C core of `ctypes`: the package itself costs a start 4 ms, and there is one call to make before workers start.
from _ctypes import call_function, dlopen, dlsym

PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans among our descendants become our children, whatever sessions they made."""
    if sys.platform == "linux":
        _prctl(PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """What `ps -o comm` shows."""
    if sys.platform == "linux":
        _prctl(PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> None:
    this_process = dlopen(None, 0)  # type: ignore[arg-type]
    call_function(dlsym(this_process, "prctl"), (option, value, 0, 0, 0))
