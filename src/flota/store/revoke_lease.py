"""Revokes the lease of a node that has died: its shepherd does it, so that the other nodes need not wait.

Blocks, but never long, and depends on nothing but sockets: the caller is about to exit, and may be short of everything.
"""

from __future__ import annotations

import select
import socket
import time

from flota.job.roster import endpoint
from flota.store.dns import Lookup, numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from flota.store.dns import Address

    Headers = Sequence[tuple[str, str]]
    Ask = Callable[[str, dict[str, str], Headers], bytes]

LONGEST = 0.5  # seconds in all; every member gets an equal part of what is left
FINAL_TTL = 5  # seconds that a final value stays
LARGEST_ANSWER = 16 << 10
GONE = b"requested lease not found"


def revoke(
    places: Sequence[tuple[str, int]],
    lease: int,
    headers: Headers = (),
    tls: ssl.SSLContext | None = None,
    user: str = "",
    password: str = "",
    final_put: tuple[bytes, bytes] | None = None,
) -> bool:
    """Whether a member has confirmed that the lease is gone. Never raises.

    `final_put`: a key, and the value that it has for some seconds more, for all that watch or read it then.

    A token that etcd gave to a user may have expired: with `user` and `password` a new one replaces the `headers`.
    """
    end = time.monotonic() + LONGEST
    for number, (host, port) in enumerate(places):
        now = time.monotonic()
        until = now + (end - now) / (len(places) - number)
        try:
            for address in _resolve(host, port, until):
                ask = _asker(address, host, port, tls, until)
                given = _authorization(ask, user, password) if user else headers
                if final_put:
                    _put(ask, *final_put, given)
                answer = ask("/v3/lease/revoke", {"ID": str(lease)}, given)
                if answer[:13].endswith(b" 200 ") or GONE in answer:
                    return True
        except Exception:  # noqa: S112  whatever it is, the next member may do better
            continue
    return False


def _authorization(ask: Ask, user: str, password: str) -> Headers:
    answer = ask("/v3/auth/authenticate", {"name": user, "password": password}, ())
    token = _field(answer, b"token")
    return [("authorization", token)] if token else []


def _put(ask: Ask, key: bytes, value: bytes, headers: Headers) -> None:
    """Under a lease of its own that is never renewed."""
    from binascii import b2a_base64

    lease = _field(ask("/v3/lease/grant", {"TTL": str(FINAL_TTL)}, headers), b"ID")
    if lease:
        entry = {"key": b2a_base64(key, newline=False).decode(), "value": b2a_base64(value, newline=False).decode()}
        ask("/v3/kv/put", {**entry, "lease": lease}, headers)


def _field(answer: bytes, name: bytes) -> str:
    return answer.partition(b'"%s":"' % name)[2].partition(b'"')[0].decode()


def _asker(address: Address, host: str, port: int, tls: ssl.SSLContext | None, until: float) -> Ask:
    """Sends requests to one address of a member, each on a connection of its own."""
    import json

    def ask(path: str, request: dict[str, str], headers: Headers) -> bytes:
        body = json.dumps(request)
        fixed = [("host", endpoint(host, str(port))), ("content-type", "application/json")]
        fixed += [("content-length", str(len(body))), ("connection", "close")]
        lines = [f"{name}: {value}" for name, value in [*fixed, *headers]]
        message = "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", body]).encode()
        try:
            with socket.socket(address[0], socket.SOCK_STREAM) as plain:
                plain.settimeout(_left(until))
                plain.connect(address[1])
                if tls is None:
                    return _exchange(plain, message, until)
                plain.settimeout(_left(until))
                with tls.wrap_socket(plain, server_hostname=host) as wrapped:
                    return _exchange(wrapped, message, until)
        except OSError:
            return b""  # this address does not answer; a name may have others

    return ask


def _resolve(host: str, port: int, until: float) -> list[Address]:
    if found := numeric(host, port):
        return found
    lookup = Lookup(host, port)
    poll = select.poll()
    poll.register(lookup.fd, select.POLLIN)
    poll.poll(_left(until) * 1000)
    lookup.close()
    return lookup.addresses


def _exchange(sock: socket.socket, message: bytes, until: float) -> bytes:
    sock.settimeout(_left(until))
    sock.sendall(message)
    answer = b""
    while len(answer) < LARGEST_ANSWER:
        sock.settimeout(_left(until))
        data = sock.recv(4096)
        if not data:
            break
        answer += data
    return answer


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
