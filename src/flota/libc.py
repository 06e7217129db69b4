"""Calls into the C library that Python has no function for.

Uses the C core of `ctypes`: importing the package would add 4 ms to the start.
"""

from __future__ import annotations

import sys
from _ctypes import call_function, dlopen, dlsym


def call(name: str, *arguments: object) -> int:
    """Return the function's result, or -1 on systems other than Linux."""
    if sys.platform != "linux":
        return -1
    this_process = dlopen(None, 0)  # type: ignore[arg-type]
    return int(call_function(dlsym(this_process, name), arguments))
