"""Which process has a port, for the error that says that it is in use."""

from __future__ import annotations

import os
from glob import iglob

from flota.host.ports import tcp_sockets

LISTENING = "0A"


def owner_of_port(port: int) -> str:
    """`pid 123, python`; empty if it cannot be read."""
    sockets = {f"socket:[{inode}]" for inode in _sockets(port)}
    for link in iglob("/proc/[0-9]*/fd/*") if sockets else ():
        try:
            if os.readlink(link) in sockets:
                pid = link.split("/")[2]
                with open(f"/proc/{pid}/comm") as name:
                    return f"pid {pid}, {name.read().strip()}"
        except OSError:
            continue  # closed, or another user's
    return ""


def _sockets(port: int) -> list[str]:
    """The sockets bound to a port; those that listen on it first."""
    found = [(row[3] != LISTENING, row[9]) for own, row in tcp_sockets() if own == port]
    return [inode for _, inode in sorted(found) if inode != "0"]
