"""Calls into the C library that Python has no function for.

On the C core of `ctypes`: the package itself costs a start 4 ms.
"""

from __future__ import annotations

import sys
from _ctypes import call_function, dlopen, dlsym


def call(name: str, *arguments: int | bytes) -> int:
    """The function's result; -1 where the system is not Linux."""
    if sys.platform != "linux":
        return -1
    this_process = dlopen(None, 0)  # type: ignore[arg-type]
    return int(call_function(dlsym(this_process, name), arguments))
