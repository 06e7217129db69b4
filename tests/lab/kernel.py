"""System calls for namespaces that Python 3.11 has no function for."""

from __future__ import annotations

import ctypes
import os

NEW_MOUNTS, NEW_HOSTNAME, NEW_NETWORK = 0x00020000, 0x04000000, 0x40000000
BIND, MOVE, RECURSIVE, SLAVE = 0x1000, 0x2000, 0x4000, 0x80000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def unshare(kinds: int) -> None:
    """Move the calling thread to new namespaces."""
    _check(_libc.unshare(kinds), "unshare")


def enter(path: str) -> None:
    """Move the calling thread to the namespace that a file below /proc/PID/ns refers to."""
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(namespace, 0), f"setns {path}")
    finally:
        os.close(namespace)


def mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    _check(_libc.mount(source.encode(), target.encode(), kind.encode(), flags, None), f"mount {source} {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
