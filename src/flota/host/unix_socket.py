"""The abstract Unix socket at which a node can be asked by root and by the user of its job."""

from __future__ import annotations

import _socket
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

BACKLOG = 64
CREDENTIALS = 12  # bytes: pid, user and group


def address_of(pid: int) -> bytes:
    """The PID namespace is part of it, because another container may have a process with the same pid."""
    return b"\0flota-%d-%d" % (pid_namespace(), pid)


def pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def listen() -> socket | None:
    """The listening socket of this process; None without /proc, or if the name is taken."""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        listener.bind(address_of(os.getpid()))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        return None
    return listener


def peer_of(connected: socket) -> tuple[int, int]:
    """The pid and the user of the process at the other end of a Unix socket."""
    credentials = connected.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, CREDENTIALS)
    pid, user = (int.from_bytes(credentials[at : at + 4], "little") for at in (0, 4))
    return pid, user
