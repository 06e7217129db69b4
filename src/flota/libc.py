"""Calls into the C library that Python has no function for. Linux's; the callers know what to do elsewhere.

On the C core of `ctypes`: the package itself costs a start 4 ms.
"""

from __future__ import annotations

from _ctypes import call_function, dlopen, dlsym


def call(name: str, *arguments: int | bytes) -> int:
    this_process = dlopen(None, 0)  # type: ignore[arg-type]
    return int(call_function(dlsym(this_process, name), arguments))
