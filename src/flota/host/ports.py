"""Ports for workers: held by the node until the round ends, so that nobody else is given them.

A holder is bound without any option, which makes sure that nobody has the port, and only then allows sharing. So a
worker that sets SO_REUSEADDR or SO_REUSEPORT, as every framework's server does, can bind and listen on it, while
bind(0) and other jobs cannot be given it. It never listens itself.
"""

from __future__ import annotations

# The C core of `socket`: the module itself turns its constants into enums, which costs a start 9 ms.
from _socket import AF_INET, AF_INET6, SO_REUSEADDR, SO_REUSEPORT, SOCK_STREAM, SOL_SOCKET, socket

from flota.errors import ForeignAddress, PortInUse, TooFewPorts, TooManyOpenFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

TIME_WAIT = "06"
EMFILE = 24


def hold_free(count: int, address: str) -> list[socket]:
    """Any free ports, chosen by the kernel."""
    held: list[socket] = []
    try:
        for _ in range(count):
            held.append(_bind(address, 0))  # noqa: PERF401  those before a failing one must be known
        return held
    except OSError as error:
        release(held)
        if error.errno == EMFILE:
            raise TooManyOpenFiles(count) from None
        raise TooFewPorts(count, 0, 1, 65535) from None


def hold_from(low: int, high: int, count: int, address: str) -> list[socket]:
    """The first free ports of a range."""
    held: list[socket] = []
    in_time_wait = _ports_in_time_wait()
    for port in range(low, high + 1):
        if len(held) == count:
            break
        try:
            held.append(_bind(address, port, reuse=port in in_time_wait))
        except OSError as error:
            if error.errno == EMFILE:
                release(held)
                raise TooManyOpenFiles(count) from None
    if len(held) < count:
        free = len(held)
        release(held)
        raise TooFewPorts(count, free, low, high)
    return held


def hold_exactly(ports: list[int], address: str) -> list[socket]:
    """These very ports, or none. A port on which only closed connections linger, as after a restart, is free."""
    held: list[socket] = []
    in_time_wait = _ports_in_time_wait() if ports else set()
    for port in ports:
        try:
            held.append(_bind(address, port, reuse=port in in_time_wait))
        except OSError as error:
            release(held)
            if error.errno == EMFILE:
                raise TooManyOpenFiles(len(ports)) from None
            from flota.host.port_owner import owner_of_port

            raise PortInUse(port, owner_of_port(port)) from None
    return held


def _ports_in_time_wait() -> set[int]:
    """The ports of which the kernel knows nothing but connections in TIME_WAIT."""
    states: dict[int, set[str]] = {}
    for port, row in tcp_sockets():
        states.setdefault(port, set()).add(row[3])
    return {port for port, seen in states.items() if seen == {TIME_WAIT}}


def tcp_sockets() -> Iterator[tuple[int, list[str]]]:
    """Their own ports, and what else the kernel says of them: the fourth field is the state, the tenth the inode."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as rows:
                fields = [row.split() for row in rows][1:]
        except OSError:
            continue
        for row in fields:
            yield int(row[1].rpartition(":")[2], 16), row


def port_of(holder: socket) -> str:
    return str(holder.getsockname()[1])


def release(held: list[socket]) -> None:
    for holder in held:
        holder.close()


def check_own_address(address: str) -> None:
    """An address that cannot be bound here is not ours."""
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
    family = _family(address)
    holder = socket(family, SOCK_STREAM)
    if reuse:
        holder.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        holder.bind(("::" if family == AF_INET6 else "0.0.0.0", port))  # noqa: S104  a reservation, never listening
    except OSError:
        holder.close()
        raise
    holder.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    holder.setsockopt(SOL_SOCKET, SO_REUSEPORT, 1)
    return holder


def _family(address: str) -> int:
    return AF_INET6 if ":" in address else AF_INET
