"""The embedded master: the key-value store behind etcd's v3 JSON gateway, inside the node's own loop."""

from __future__ import annotations

import hmac
import os
import socket
import ssl
import time
from functools import partial

import h11
import msgspec

from flota.store.connection import Asked, Connection, frame
from flota.store.kv import INVALID, OUT_OF_RANGE, KeyValueStore
from flota.store.messages import (
    Answer,
    DeleteRange,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
    LeaseTimeToLive,
    Put,
    Range,
    Refusal,
    Request,
    Txn,
    Watch,
    WatchAnswer,
    WatchCreate,
    decode,
    encode,
)
from flota.store.watches import Watches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Loop(Protocol):
        """What the server needs of the node's loop."""

        def watch(self, fd: int, callback: Callable[[], object], events: int = ...) -> None: ...
        def forget(self, fd: int) -> None: ...


READABLE, WRITABLE = 1, 4
MOST_CONNECTIONS = 20_000
ACCEPTED_AT_ONCE = 64
BACKLOG = 4096
# gRPC's codes as etcd's gateway turns them into HTTP's.
STATUS = {3: 400, 5: 404, 8: 429, 9: 400, 11: 400, 16: 401}
UNAUTHENTICATED = 16


class Master:
    """Serves until `close`. Drive it: call `on_time` when `deadline` has passed."""

    def __init__(self, address: str, port: int, loop: Loop, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=BACKLOG, reuse_port=False)
        self._listener.setblocking(False)  # noqa: FBT003
        self.port: int = self._listener.getsockname()[1]
        self._loop = loop
        self._token = token.encode()
        self._tls = tls
        self.store = KeyValueStore()
        self.watches = Watches()
        self.connections: dict[int, Connection] = {}
        self._watched: dict[int, WatchCreate] = {}
        self._routes = self._make_routes()
        loop.watch(self._listener.fileno(), self._accept)

    @property
    def deadline(self) -> float | None:
        """When something is due without anybody asking: a lease's end, a request that takes too long."""
        ends = [connection.deadline for connection in self.connections.values()]
        return min((end for end in [self.store.deadline, *ends] if end is not None), default=None)

    def on_time(self, now: float) -> None:
        for connection in [one for one in self.connections.values() if one.deadline and one.deadline <= now]:
            connection.refuse(408, _error(INVALID, "the request took too long to arrive"))
            self._tidy(connection)
        self.store.expire(now)
        self._tell_watchers()

    def close(self) -> None:
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        for connection in list(self.connections.values()):
            self._drop(connection)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return  # nobody more, or out of descriptors: those waiting stay in the backlog
            if len(self.connections) >= MOST_CONNECTIONS and not self._make_room():
                sock.close()
                return
            sock.setblocking(False)  # noqa: FBT003
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            connection = Connection(sock, time.monotonic())
            self.connections[sock.fileno()] = connection
            self._loop.watch(sock.fileno(), partial(self._on_ready, connection))

    def _make_room(self) -> bool:
        """Give up the connection that has been idle longest: a flood of idle ones must not lock others out."""
        idle = [one for one in self.connections.values() if not one.streaming]
        if not idle:
            return False
        self._drop(min(idle, key=lambda connection: connection.idle_since))
        return True

    def _on_ready(self, connection: Connection) -> None:
        now = time.monotonic()
        try:
            connection.flush()
            asked = connection.receive(now)
            while asked and not connection.closed:
                asked = self._answer(connection, asked[0], now)
        except h11.RemoteProtocolError as error:
            connection.refuse(error.error_status_hint, _error(INVALID, str(error)))
        self._tell_watchers()
        self._tidy(connection)

    def _answer(self, connection: Connection, asked: Asked, now: float) -> list[Asked]:
        try:
            self._check_token(asked)
            if asked.path.endswith("/watch") and asked.method == "POST":
                self._begin_watch(connection, asked)
                return []
            return connection.answer(200, self._result(asked, now), now)
        except Refusal as refusal:
            return connection.answer(STATUS[refusal.code], _error(refusal.code, refusal.words), now)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            return connection.answer(400, _error(INVALID, str(error)), now)
        except LookupError:
            return connection.answer(404, b'{"error":"Not Found","message":"Not Found","code":5}', now)

    def _check_token(self, asked: Asked) -> None:
        given = asked.headers.get(b"authorization", b"")
        if self._token and not hmac.compare_digest(given, self._token):
            raise Refusal(UNAUTHENTICATED, "etcdserver: invalid auth token")

    def _result(self, asked: Asked, now: float) -> bytes:
        if asked.method == "GET":
            return FACTS[asked.path]
        kind, handle = self._routes[asked.path.replace("/v3beta/", "/v3/", 1)]
        answer = handle(decode(asked.body, kind), now)
        return answer if isinstance(answer, bytes) else encode(answer)

    def _make_routes(self) -> dict[str, tuple[type[Request], Callable[[Any, float], Answer | bytes]]]:
        store = self.store
        lease: dict[str, tuple[type[Request], Callable[[Any, float], Answer | bytes]]] = {
            "revoke": (LeaseRevoke, lambda ask, _: store.revoke(ask)),
            "timetolive": (LeaseTimeToLive, store.time_to_live),
            "leases": (Request, lambda _, __: store.leases()),
        }
        return {
            "/v3/kv/range": (Range, lambda ask, _: store.range(ask)),
            "/v3/kv/put": (Put, lambda ask, _: store.put(ask)),
            "/v3/kv/deleterange": (DeleteRange, lambda ask, _: store.delete_range(ask)),
            "/v3/kv/txn": (Txn, lambda ask, _: store.txn(ask)),
            "/v3/lease/grant": (LeaseGrant, lambda ask, now: store.grant(ask, _fresh_id(), now)),
            "/v3/lease/keepalive": (LeaseKeepAlive, lambda ask, now: _streamed(store.keep_alive(ask, now))),
            **{f"/v3/lease/{name}": route for name, route in lease.items()},
            **{f"/v3/kv/lease/{name}": route for name, route in lease.items()},
            "/v3/maintenance/status": (Request, lambda _, __: self._status()),
            "/v3/cluster/member/list": (Request, lambda _, __: self._members()),
        }

    def _status(self) -> bytes:
        status = {"header": self.store.header(), "version": "3.4.0", "leader": "1", "raftTerm": "1"}
        return msgspec.json.encode(status)

    def _members(self) -> bytes:
        member = {"ID": "1", "name": "flota", "clientURLs": [f"http://{self._listener.getsockname()[0]}:{self.port}"]}
        return msgspec.json.encode({"header": self.store.header(), "members": [member]})

    def _begin_watch(self, connection: Connection, asked: Asked) -> None:
        watch = decode(asked.body, Watch)
        assert isinstance(watch, Watch)
        ask = watch.create_request or WatchCreate()
        if 0 < ask.start_revision < self.watches.oldest:
            raise Refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
        past = self.watches.add(connection, ask)
        self._watched[connection.socket.fileno()] = ask
        connection.begin_stream()
        connection.send_chunk(frame(_streamed(WatchAnswer(self.store.header(), created=True)) + b"\n"))
        if past:
            connection.send_chunk(frame(_streamed(WatchAnswer(self.store.header(), events=past)) + b"\n"))

    def _tell_watchers(self) -> None:
        changes = self.store.take_changes()
        if not changes:
            return
        for events, watchers in self.watches.news(changes):
            chunk = frame(_streamed(WatchAnswer(self.store.header(), events=events)) + b"\n")
            for watcher in list(watchers):
                assert isinstance(watcher, Connection)
                watcher.send_chunk(chunk)
                self._tidy(watcher)

    def _tidy(self, connection: Connection) -> None:
        """After anything was done with a connection: send what can be sent, watch for what is left, drop the dead."""
        fd = connection.socket.fileno()
        if fd < 0 or fd not in self.connections:
            return
        connection.flush()
        if connection.closed:
            self._drop(connection)
            return
        events = READABLE | (WRITABLE if connection.wants_to_write else 0)
        self._loop.watch(fd, partial(self._on_ready, connection), events)

    def _drop(self, connection: Connection) -> None:
        fd = connection.socket.fileno()
        self._loop.forget(fd)
        self.connections.pop(fd, None)
        ask = self._watched.pop(fd, None)
        if ask:
            self.watches.remove(connection, ask)
        connection.closed = True
        connection.socket.close()


FACTS = {
    "/version": b'{"etcdserver":"3.4.0","etcdcluster":"3.4.0"}',
    "/health": b'{"health":"true"}',
}


def _fresh_id() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 1 or 1


def _streamed(answer: Answer) -> bytes:
    """etcd's gateway wraps what it streams."""
    return b'{"result":' + encode(answer) + b"}"


def _error(code: int, words: str) -> bytes:
    return msgspec.json.encode({"error": words, "message": words, "code": code})
