"""Revokes the lease of a node that has died: its shepherd does it, so that the other nodes need not wait.

Blocks, but never long, and depends on nothing but sockets: the caller is about to exit, and may be short of everything.
"""

from __future__ import annotations

import _thread
import socket
import time
from _queue import Empty, SimpleQueue  # the C core of `queue`, which would load `threading`
from collections.abc import Callable, Sequence

from flota.job.roster import endpoint
from flota.store import dns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

Headers = Sequence[tuple[str, str]]
Ask = Callable[[str, dict[str, str], Headers], bytes]
LONGEST = 0.5  # seconds in all
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
    """Whether a member has confirmed in time that the lease is gone. Asks all of them at once. Never raises.

    `final_put`: a key, and the value that it has for some seconds more, for all that watch or read it then.

    A token that etcd gave to a user may have expired: with `user` and `password` a new one replaces the `headers`.
    """
    results: SimpleQueue[bool] = SimpleQueue()

    def ask_member(host: str, port: int) -> None:
        gone = False
        try:
            for address in dns.numeric(host, port) or dns.find_addresses(host, port):
                ask = _asker(address, host, port, tls)
                given = _authorization(ask, user, password) if user else headers
                if final_put:
                    _put(ask, *final_put, given)
                answer = ask("/v3/lease/revoke", {"ID": str(lease)}, given)
                gone = answer[:13].endswith(b" 200 ") or GONE in answer
                if gone:
                    break
        except Exception:  # noqa: S110  whatever it is, another member may do better
            pass
        results.put(gone)

    end = time.monotonic() + LONGEST
    for host, port in places:
        try:
            _thread.start_new_thread(ask_member, (host, port))
        except RuntimeError:  # too many threads
            ask_member(host, port)
    try:
        return any(results.get(timeout=max(0.0, end - time.monotonic())) for _ in places)
    except Empty:
        return False


def _authorization(ask: Ask, user: str, password: str) -> Headers:
    token = _field(ask("/v3/auth/authenticate", {"name": user, "password": password}, ()), b"token")
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


def _asker(address: dns.Address, host: str, port: int, tls: ssl.SSLContext | None) -> Ask:
    """Sends requests to one address of a member, each on a connection of its own."""
    import json

    def ask(path: str, request: dict[str, str], headers: Headers) -> bytes:
        body = json.dumps(request)
        fixed = [("host", endpoint(host, str(port))), ("content-type", "application/json")]
        fixed += [("content-length", str(len(body))), ("connection", "close")]
        lines = [f"{name}: {value}" for name, value in [*fixed, *headers]]
        message = "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", body]).encode()
        answer = b""
        try:
            with socket.socket(address[0], socket.SOCK_STREAM) as plain:
                plain.settimeout(LONGEST)
                plain.connect(address[1])
                with tls.wrap_socket(plain, server_hostname=host) if tls else plain as sock:
                    sock.sendall(message)
                    while len(answer) < LARGEST_ANSWER and (data := sock.recv(4096)):
                        answer += data
        except OSError:
            pass  # this address does not answer; a name may have others
        return answer

    return ask
