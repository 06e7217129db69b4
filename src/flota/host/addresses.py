"""The addresses of this machine: which ones it has, which of them others can reach, and which names resolve to them.

Imported only for jobs on several machines. Whether an address is ours is read from the interfaces: with
`ip_nonlocal_bind` on, as on many Kubernetes nodes, bind() accepts any address.
"""

from __future__ import annotations

import ctypes
import socket
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address

LOOPBACK = "127.0.0.1"
# Reserved for documentation: no host has them, so the route to them is the default route.
FAR_AWAY = ("203.0.113.1", "2001:db8::1")
DISCARD = 9
IFF_UP = 1


class _Entry(ctypes.Structure):
    """The beginning of C's `struct ifaddrs`; what follows is not read."""


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
]


def own_addresses() -> list[tuple[str, str]]:
    """Return (interface, address) pairs of all interfaces that are up, in the kernel's order.

    Uses getifaddrs(): the ioctl returns one IPv4 address per interface and no IPv6, and /proc does not list the
    interfaces of IPv4 addresses.
    """
    libc = ctypes.CDLL(None)
    first = ctypes.POINTER(_Entry)()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        return []
    found: list[tuple[str, str]] = []
    entry = first
    while entry:
        one = entry.contents
        address = _read_address(one.address) if one.address and one.flags & IFF_UP else ""
        if address:
            found.append((one.name.decode(errors="replace"), address))
        entry = one.next
    libc.freeifaddrs(first)
    return found


def _read_address(pointer: int) -> str:
    """Return a sockaddr's address as text; empty if it is neither IPv4 nor IPv6."""
    # On systems other than Linux the first byte is a length.
    family = ctypes.c_uint16.from_address(pointer).value if sys.platform == "linux" else ctypes.string_at(pointer, 2)[1]
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, ctypes.string_at(pointer + 4, 4))
    if family == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, ctypes.string_at(pointer + 8, 16))
    return ""


def reachable_address(toward: str = "") -> str:
    """Return the address at which other machines can reach this one; with `toward`, the one on the route to that host.

    The kernel chooses it when a UDP socket is connected, which sends nothing. Without a route this is the first global
    address, or 127.0.0.1 if there is none; never 127.0.1.1, to which a hostname may resolve.
    """
    for address in [*_resolve(toward), *FAR_AWAY]:
        family = socket.AF_INET6 if _is_version_6(address) else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, DISCARD))
                source = str(probe.getsockname()[0])
        except OSError:
            continue
        if not _is_local_only(source):
            return source
    reachable = [address for _, address in own_addresses() if not _is_local_only(address)]
    return min(reachable, key=_is_version_6, default=LOOPBACK)


def is_own(address: str) -> bool:
    """Whether the address belongs to this machine; all of 127.0.0.0/8 does."""
    value = _parse(address)
    return value is not None and (value.is_loopback or value in [_parse(own) for _, own in own_addresses()])


def interface_of(address: str) -> str | None:
    """Return the interface that has this address."""
    value = _parse(address)
    listed = [(name, _parse(own)) for name, own in own_addresses()]
    exact = [name for name, own in listed if own and own == value]
    loopback = [name for name, own in listed if own and own.is_loopback and value and value.is_loopback]
    return next(iter(exact + loopback), None)


def address_of(interface: str) -> str | None:
    """Return an interface's address: preferably one that other machines can reach, then IPv4 before IPv6."""
    own = [address for name, address in own_addresses() if name == interface]
    return min(own, key=lambda address: (_is_local_only(address), _is_version_6(address)), default=None)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address, or `localhost`."""
    value = _parse(host)
    return value.is_loopback if value else host.lower() == "localhost"


def hostname_misleads(address: str) -> bool:
    """Whether this machine's hostname resolves to an address that other nodes cannot reach.

    Debian's installer writes `127.0.1.1 HOSTNAME`; gloo looks its hostname up and sends the result to its peers.
    """
    if is_loopback(address):
        return False
    found = _resolve(socket.gethostname())
    return not found or any(is_loopback(each) for each in found)


def resolve_own(host: str) -> str | None:
    """Return the address to serve on if the master's host is this machine; None if it is another machine.

    For a hostname that resolves to loopback, this is an address that others can reach. An explicit 127.0.0.1 is kept:
    then all nodes are on this machine.
    """
    if _parse(host):
        return host if is_own(host) else None
    own = [address for address in _resolve(host) if is_own(address)]
    outer = next((address for address in own if not is_loopback(address)), None)
    if outer:
        return outer
    if is_loopback(host):
        return own[0] if own else LOOPBACK
    name = socket.gethostname().lower()
    # The lookup of the full name takes time: do it only if the host resolves.
    if host.lower() in (name, name.partition(".")[0]) or (own and host.lower() == socket.getfqdn(name).lower()):
        return reachable_address()
    return own[0] if own else None


def _resolve(host: str) -> list[str]:
    """Return a host's addresses, IPv4 first; an empty list if it cannot be resolved."""
    if not host:
        return []
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted(dict.fromkeys(str(entry[4][0]) for entry in found), key=_is_version_6)


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    try:
        value = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = value.ipv4_mapped if isinstance(value, IPv6Address) else None
    return mapped or value


def _is_version_6(address: str) -> bool:
    return ":" in address


def _is_local_only(address: str) -> bool:
    """Whether an address is loopback, link-local, unspecified or invalid."""
    value = _parse(address)
    return value is None or value.is_loopback or value.is_link_local or value.is_unspecified
