"""Which process has a port, for the error that says that it is in use."""

from __future__ import annotations

import os

from flota.host.ports import tcp_sockets

LISTENING = "0A"


def owner_of_port(port: int) -> str:
    """`pid 123, python`; empty if it cannot be read."""
    sockets = {f"socket:[{inode}]" for inode in _sockets(port)}
    for pid in filter(str.isdecimal, _listing("/proc")) if sockets else ():
        for fd in _listing(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{fd}") in sockets:
                    return f"pid {pid}, {_name(pid)}"
            except OSError:
                continue  # closed, or another user's
    return ""


def _sockets(port: int) -> list[str]:
    """The sockets bound to a port; those that listen on it first."""
    found = [(row[3] != LISTENING, row[9]) for own, row in tcp_sockets() if own == port]
    return [inode for _, inode in sorted(found) if inode != "0"]


def _listing(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
