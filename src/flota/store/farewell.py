"""Ends a lease on behalf of a node that has died: a shepherd says it for its node, so that others need not wait.

Blocks, but never long, and depends on nothing but sockets: who calls is about to end, and may be short of everything.
"""

from __future__ import annotations

import select
import socket
import time

from flota.store.names import Lookup, numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Sequence

    from flota.store.names import Address

LONGEST = 0.5  # seconds in all; every member gets an equal part of what is left
LARGEST_ANSWER = 16 << 10
GONE = b"requested lease not found"


def revoke(
    places: Sequence[tuple[str, int]],
    lease: int,
    headers: Iterable[tuple[str, str]] = (),
    tls: ssl.SSLContext | None = None,
) -> bool:
    """Whether a member has said that the lease is gone. `headers` as for every request: the token. Never raises."""
    end = time.monotonic() + LONGEST
    for number, (host, port) in enumerate(places):
        now = time.monotonic()
        until = now + (end - now) / (len(places) - number)
        try:
            if any(_ask(address, host, port, lease, headers, tls, until) for address in _resolve(host, port, until)):
                return True
        except Exception:  # noqa: S112  whatever it is, the next member may do better
            continue
    return False


def _resolve(host: str, port: int, until: float) -> list[Address]:
    if found := numeric(host, port):
        return found
    lookup = Lookup(host, port)
    poll = select.poll()
    poll.register(lookup.fd, select.POLLIN)
    poll.poll(_left(until) * 1000)
    lookup.close()
    return lookup.addresses


def _ask(
    address: Address,
    host: str,
    port: int,
    lease: int,
    headers: Iterable[tuple[str, str]],
    tls: ssl.SSLContext | None,
    until: float,
) -> bool:
    body = f'{{"ID":"{lease}"}}'
    named = f"[{host}]" if ":" in host else host
    fixed = [("host", f"{named}:{port}"), ("content-type", "application/json"), ("content-length", str(len(body)))]
    lines = [f"{name}: {value}" for name, value in [*fixed, ("connection", "close"), *headers]]
    request = "\r\n".join(["POST /v3/lease/revoke HTTP/1.1", *lines, "", body]).encode()
    try:
        with socket.socket(address[0], socket.SOCK_STREAM) as plain:
            plain.settimeout(_left(until))
            plain.connect(address[1])
            if tls is None:
                return _exchange(plain, request, until)
            plain.settimeout(_left(until))
            with tls.wrap_socket(plain, server_hostname=host) as wrapped:
                return _exchange(wrapped, request, until)
    except OSError:
        return False  # this address does not answer; a name may have others


def _exchange(sock: socket.socket, request: bytes, until: float) -> bool:
    sock.settimeout(_left(until))
    sock.sendall(request)
    answer = b""
    while len(answer) < LARGEST_ANSWER:
        sock.settimeout(_left(until))
        data = sock.recv(4096)
        if not data:
            break
        answer += data
    return answer[:13].endswith(b" 200 ") or GONE in answer


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
