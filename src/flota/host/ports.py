"""Ports for workers: the node holds them until the round ends, so that no other process gets them.

A holder binds without options, which proves that the port is free, and allows sharing afterwards. So a worker that sets
SO_REUSEADDR or SO_REUSEPORT, as every framework's server does, can bind the port and listen on it, while bind(0) and
other jobs do not get it. The holder itself never listens.

The kernel shares a port by SO_REUSEADDR with every user, by SO_REUSEPORT alone only with the holder's user.

Ports that flota chooses are held on all addresses: some frameworks listen on all of them. Ports that the user chose are
held on the node's own address, so that two nodes with two addresses of one machine can use the same ports.
"""

from __future__ import annotations

import os
from _collections_abc import Iterator, Sequence

# The C core of `socket`: the module turns its constants into enums, which would add 9 ms to the start.
from _socket import AF_INET, AF_INET6, SO_REUSEADDR, SO_REUSEPORT, SOCK_STREAM, SOL_SOCKET, socket

from flota.errors import FlotaError, ForeignAddress, PortInUse, TooFewPorts, TooManyOpenFiles

TIME_WAIT = "06"
EMFILE = 24


def hold_free(count: int, address: str, limits: tuple[int, int] | None = None) -> list[socket]:
    """Hold the first free ports of a range; without a range, ports that the kernel chooses."""
    ports = range(limits[0], limits[1] + 1) if limits else [0] * count
    return _hold(ports, count, _any_of(address), limits or (1, 65535))


def hold_exactly(ports: list[int], address: str) -> list[socket]:
    """Hold exactly these ports on this address, or none of them."""
    return _hold(ports, len(ports), address)


def _hold(ports: Sequence[int], count: int, address: str, limits: tuple[int, int] | None = None) -> list[socket]:
    """Hold `count` of these ports. Without `limits`, a port in use is an error.

    A port whose connections are all in TIME_WAIT, as after a restart, is free.
    """
    held: list[socket] = []
    in_time_wait = _ports_in_time_wait() if any(ports) else set()
    try:
        for port in ports:
            if len(held) == count:
                break
            try:
                held.append(_bind(address, port, reuse=port in in_time_wait))
            except OSError as error:
                if error.errno == EMFILE:
                    raise TooManyOpenFiles(count) from None
                if limits is None:
                    raise PortInUse(port, owner_of_port(port)) from None
        if limits and len(held) < count:
            raise TooFewPorts(count, len(held), *limits)
    except FlotaError:
        release(held)
        raise
    return held


def _ports_in_time_wait() -> set[int]:
    """Return the ports whose connections are all in TIME_WAIT."""
    states: dict[int, set[str]] = {}
    for port, row in tcp_sockets():
        states.setdefault(port, set()).add(row[3])
    return {port for port, seen in states.items() if seen == {TIME_WAIT}}


def tcp_sockets() -> Iterator[tuple[int, list[str]]]:
    """Yield each socket's local port and its row of /proc/net/tcp: row[3] is the state, row[9] the inode."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as rows:
                fields = [row.split() for row in rows][1:]
        except OSError:
            continue
        for row in fields:
            yield int(row[1].rpartition(":")[2], 16), row


def owner_of_port(port: int) -> str:
    """Return the process that has a port, as `pid 123, python`; empty if it is unknown."""
    pid = pid_of_port(port)
    try:
        with open(f"/proc/{pid}/comm") as name:
            return f"pid {pid}, {name.read().strip()}"
    except OSError:
        return ""  # no process, or it has just exited


def pid_of_port(port: int) -> int:
    """Return the process that has a port; 0 if it is unknown, as for a process of another user."""
    from glob import iglob

    sockets = {f"socket:[{row[9]}]" for own, row in tcp_sockets() if own == port and row[9] != "0"}
    for link in iglob("/proc/[0-9]*/fd/*") if sockets else ():
        try:
            if os.readlink(link) in sockets:
                return int(link.split("/")[2])
        except OSError:
            continue  # closed, or a process of another user
    return 0


def port_of(holder: socket) -> str:
    return str(holder.getsockname()[1])


def keep_other_users_out(holder: socket) -> None:
    """Share the port by SO_REUSEPORT alone. Only for servers that set it: others cannot bind the port any more."""
    holder.setsockopt(SOL_SOCKET, SO_REUSEADDR, 0)


def release(held: list[socket]) -> None:
    for holder in held:
        holder.close()


def check_own_address(address: str) -> None:
    """Raise ForeignAddress unless the address can be bound here."""
    try:
        probe = socket(_family(address), SOCK_STREAM)
        try:
            probe.bind((address, 0))
        finally:
            probe.close()
    except OSError as error:
        if error.errno == EMFILE:
            raise TooManyOpenFiles(1) from None
        raise ForeignAddress(address) from None


def _bind(address: str, port: int, *, reuse: bool = False) -> socket:
    holder = socket(_family(address), SOCK_STREAM)
    if reuse:
        holder.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        holder.bind((address, port))
    except OSError:
        holder.close()
        raise
    holder.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    holder.setsockopt(SOL_SOCKET, SO_REUSEPORT, 1)
    return holder


def _any_of(address: str) -> str:
    """All addresses of its family."""
    return "::" if ":" in address else "0.0.0.0"  # noqa: S104  a reservation, never listening


def _family(address: str) -> int:
    return AF_INET6 if ":" in address else AF_INET
