"""Ends a lease on behalf of a node that has died: a shepherd says it for its node, so that others need not wait.

Blocks, but never long, and depends on nothing but sockets: who calls is about to end, and may be short of everything.
"""

from __future__ import annotations

import select
import socket
import time

from flota.store.dns import Lookup, numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Sequence

    from flota.store.dns import Address

LONGEST = 0.5  # seconds in all; every member gets an equal part of what is left
REMEMBERED = 5  # seconds that a last word stays
LARGEST_ANSWER = 16 << 10
GONE = b"requested lease not found"


def revoke(
    places: Sequence[tuple[str, int]],
    lease: int,
    headers: Iterable[tuple[str, str]] = (),
    tls: ssl.SSLContext | None = None,
    user: str = "",
    password: str = "",
    last_word: tuple[bytes, bytes] | None = None,
) -> bool:
    """Whether a member has said that the lease is gone. `headers` as for every request: the token. Never raises.

    `last_word`: a key, and what it shall say for some seconds more, for whoever watches it or looks then.

    A token that etcd gave to a user may be forgotten by now: with `user` and `password` a new one is asked for first.
    """
    end = time.monotonic() + LONGEST
    for number, (host, port) in enumerate(places):
        now = time.monotonic()
        until = now + (end - now) / (len(places) - number)
        try:
            for address in _resolve(host, port, until):
                store = Store(address, host, port, tls, until)
                given = store.authorization(user, password) if user else list(headers)
                if last_word:
                    store.put(*last_word, given)
                if store.revoke(lease, given):
                    return True
        except Exception:  # noqa: S112  whatever it is, the next member may do better
            continue
    return False


class Store:
    """One address of a member, and the time it has."""

    def __init__(self, address: Address, host: str, port: int, tls: ssl.SSLContext | None, until: float) -> None:
        self._address = address
        self._host = host
        self._place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._tls = tls
        self._until = until

    def put(self, key: bytes, value: bytes, headers: list[tuple[str, str]]) -> None:
        """Under a lease of its own that nobody renews."""
        from binascii import b2a_base64

        granted = self._ask("/v3/lease/grant", {"TTL": str(REMEMBERED)}, headers)
        lease = granted.partition(b'"ID":"')[2].partition(b'"')[0].decode()
        if not lease:
            return
        named = {"key": b2a_base64(key, newline=False).decode(), "value": b2a_base64(value, newline=False).decode()}
        self._ask("/v3/kv/put", {**named, "lease": lease}, headers)

    def revoke(self, lease: int, headers: list[tuple[str, str]]) -> bool:
        answer = self._ask("/v3/lease/revoke", {"ID": str(lease)}, headers)
        return answer[:13].endswith(b" 200 ") or GONE in answer

    def authorization(self, user: str, password: str) -> list[tuple[str, str]]:
        answer = self._ask("/v3/auth/authenticate", {"name": user, "password": password}, [])
        token = answer.partition(b'"token":"')[2].partition(b'"')[0].decode()
        return [("authorization", token)] if token else []

    def _ask(self, path: str, ask: dict[str, str], headers: list[tuple[str, str]]) -> bytes:
        import json

        body = json.dumps(ask)
        fixed = [("host", self._place), ("content-type", "application/json"), ("content-length", str(len(body)))]
        lines = [f"{name}: {value}" for name, value in [*fixed, ("connection", "close"), *headers]]
        request = "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", body]).encode()
        try:
            with socket.socket(self._address[0], socket.SOCK_STREAM) as plain:
                plain.settimeout(_left(self._until))
                plain.connect(self._address[1])
                if self._tls is None:
                    return _exchange(plain, request, self._until)
                plain.settimeout(_left(self._until))
                with self._tls.wrap_socket(plain, server_hostname=self._host) as wrapped:
                    return _exchange(wrapped, request, self._until)
        except OSError:
            return b""  # this address does not answer; a name may have others


def _resolve(host: str, port: int, until: float) -> list[Address]:
    if found := numeric(host, port):
        return found
    lookup = Lookup(host, port)
    poll = select.poll()
    poll.register(lookup.fd, select.POLLIN)
    poll.poll(_left(until) * 1000)
    lookup.close()
    return lookup.addresses


def _exchange(sock: socket.socket, request: bytes, until: float) -> bytes:
    sock.settimeout(_left(until))
    sock.sendall(request)
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
