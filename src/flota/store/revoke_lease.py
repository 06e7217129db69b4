"""Revokes the lease of a node that has died, on behalf of its shepherd, so that the other nodes do not wait for it.

Blocks for a short time only, and needs nothing but sockets: the caller is about to exit, and may be out of resources.
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
LONGEST = 0.5  # seconds for an answer, and in total
RETRY = 0.05  # seconds between attempts, if there is time for more than one
FINAL_TTL = 5  # seconds that the final value stays
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
    seconds: float = LONGEST,
) -> bool:
    """Revoke the lease at all members in parallel. Returns whether one of them has confirmed it in time. Never raises.

    `final_put`: a key, and a value that it keeps for a few more seconds, for nodes that watch or read it.

    etcd's token in `headers` may have expired: with `user` and `password` a new one is requested.

    `seconds`: in total. With more than LONGEST it is tried again: a request that went to a leader which has just died
    is never answered.
    """
    results: SimpleQueue[bool] = SimpleQueue()
    end = time.monotonic() + seconds

    def revoke_at(ask: Ask) -> bool:
        given = _authorization(ask, user, password) if user else headers
        if final_put:
            _put(ask, *final_put, given)
        answer = ask("/v3/lease/revoke", {"ID": str(lease)}, given)
        return answer[:13].endswith(b" 200 ") or GONE in answer

    def ask_member(host: str, port: int) -> None:
        while not (gone := _try_member(host, port, tls, revoke_at)) and time.monotonic() < end - LONGEST:
            time.sleep(RETRY)
        results.put(gone)

    for host, port in places:
        try:
            _thread.start_new_thread(ask_member, (host, port))
        except RuntimeError:  # too many threads
            ask_member(host, port)
    try:
        return any(results.get(timeout=max(0.0, end - time.monotonic())) for _ in places)
    except Empty:
        return False


def _try_member(host: str, port: int, tls: ssl.SSLContext | None, revoke_at: Callable[[Ask], bool]) -> bool:
    try:
        addresses = dns.numeric(host, port) or dns.find_addresses(host, port)
        return any(revoke_at(_asker(address, host, port, tls)) for address in addresses)
    except Exception:  # another member may succeed
        return False


def _authorization(ask: Ask, user: str, password: str) -> Headers:
    token = _field(ask("/v3/auth/authenticate", {"name": user, "password": password}, ()), b"token")
    return [("authorization", token)] if token else []


def _put(ask: Ask, key: bytes, value: bytes, headers: Headers) -> None:
    """Write the value with a lease that is never renewed."""
    from binascii import b2a_base64

    lease = _field(ask("/v3/lease/grant", {"TTL": str(FINAL_TTL)}, headers), b"ID")
    if lease:
        entry = {"key": b2a_base64(key, newline=False).decode(), "value": b2a_base64(value, newline=False).decode()}
        ask("/v3/kv/put", {**entry, "lease": lease}, headers)


def _field(answer: bytes, name: bytes) -> str:
    return answer.partition(b'"%s":"' % name)[2].partition(b'"')[0].decode()


def _asker(address: dns.Address, host: str, port: int, tls: ssl.SSLContext | None) -> Ask:
    """A function that sends requests to one address of a member, each on a new connection."""
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
