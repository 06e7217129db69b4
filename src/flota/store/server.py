"""The embedded master: the key-value store behind etcd's v3 JSON gateway, inside the node's own loop."""

from __future__ import annotations

import errno
import hmac
import socket
import ssl
import time
from functools import partial

import h11

from flota.store.deadlines import Deadlines
from flota.store.etcd_json import BAD_JSON, UNAUTHENTICATED, Refusal, WatchAnswer, WatchCreate, WatchRequest, decode
from flota.store.kv import INVALID, OUT_OF_RANGE, KeyValueStore
from flota.store.routes import STATUS, Routes, error_text, streamed
from flota.store.server_connection import Asked, Connection, frame
from flota.store.server_watches import Watches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class LoopProtocol(Protocol):
        """What the server needs of the node's loop."""

        def watch(self, fd: int, callback: Callable[[], object], events: int = ...) -> None: ...
        def forget(self, fd: int) -> None: ...


READABLE, WRITABLE = 1, 4
MOST_CONNECTIONS = 20_000
ACCEPTED_AT_ONCE = 512  # a turn with thousands of requests takes long, and the kernel's queue is short
BACKLOG = 4096
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
REST = 0.5  # seconds
BETWEEN_REFUSALS = 1.0  # seconds: one who guesses tokens must not fill the owner's log
BACK_IN = 0.25  # seconds in which a client whose connections broke renews its lease, if it is alive
LEASE_HEADER = b"x-flota-lease"


class Master:
    """Serves until `close`. Drive it: call `on_time` when `deadline` has passed.

    `on_refused` is called with the address of a client whose token is wrong, once a second at the most.
    """

    def __init__(
        self,
        address: str,
        port: int,
        loop: LoopProtocol,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        on_refused: Callable[[str], object] | None = None,
    ) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=BACKLOG, reuse_port=False)
        self._listener.setblocking(False)  # noqa: FBT003
        self.port: int = self._listener.getsockname()[1]
        self._loop = loop
        self._token = token.encode()
        self._tls = tls
        self._on_refused = on_refused
        self._quiet_until = 0.0
        self.store = KeyValueStore()
        self.watches = Watches()
        self.connections: dict[int, Connection] = {}
        self._watched: dict[int, WatchCreate] = {}
        self._slow = Deadlines()  # of requests that have begun to arrive
        self._tied: dict[int, int] = {}  # a lease to the number of connections that name it
        self._routes = Routes(self.store, f"http://{self._listener.getsockname()[0]}:{self.port}")
        loop.watch(self._listener.fileno(), self._accept)

    @property
    def deadline(self) -> float | None:
        """When something is due without anybody asking: a lease's end, a request that takes too long."""
        return min((end for end in (self.store.deadline, self._slow.first) if end is not None), default=None)

    def on_time(self, now: float) -> None:
        for fd in self._slow.take_due(now):
            if fd == self._listener.fileno():
                self._loop.watch(fd, self._accept)
                continue
            connection = self.connections[fd]
            connection.refuse(408, error_text(INVALID, "the request took too long to arrive"))
            self._tidy(connection)
        self.store.expire(now)
        self._tell_watchers()

    def close(self) -> None:
        self._loop.forget(self._listener.fileno())
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # also for a forked process that holds it
        except OSError:
            pass
        self._listener.close()
        for connection in list(self.connections.values()):
            self._drop(connection)

    def _accept(self) -> None:
        for number in range(ACCEPTED_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                # Linux says so also when nobody waits: only the first time is it certain that somebody does.
                if error.errno in OUT_OF_DESCRIPTORS and number == 0 and not self._make_room():
                    self._rest()
                return
            if len(self.connections) >= MOST_CONNECTIONS and not self._make_room():
                sock.close()
                return
            sock.setblocking(False)  # noqa: FBT003
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                try:
                    sock.getpeername()
                    sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                except OSError:
                    sock.close()
                    continue  # it has left already, which Python's TLS takes for an error
            connection = Connection(sock, time.monotonic(), self._admits)
            self.connections[sock.fileno()] = connection
            self._watch(connection)

    def _rest(self) -> None:
        """Those who wait stay in the kernel's queue; without a pause the loop would turn for them without end."""
        self._loop.forget(self._listener.fileno())
        self._slow[self._listener.fileno()] = time.monotonic() + REST

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
                asked = self._answer(connection, asked, now)
        except h11.RemoteProtocolError as error:
            connection.refuse(error.error_status_hint, error_text(INVALID, str(error)))
        self._tidy(connection)
        self._tell_watchers()

    def _answer(self, connection: Connection, asked: Asked, now: float) -> Asked | None:
        try:
            self._check_token(connection, asked, now)
            if asked.path.endswith("/watch") and asked.method == "POST":
                self._begin_watch(connection, asked)
                return None
            return connection.answer(200, self._routes.answer(asked.method, asked.path, asked.body, now), now)
        except Refusal as refusal:
            return connection.answer(STATUS[refusal.code], error_text(refusal.code, refusal.words), now)
        except BAD_JSON as error:
            return connection.answer(400, error_text(INVALID, str(error)), now)
        except LookupError:
            return connection.answer(404, b'{"error":"Not Found","message":"Not Found","code":5}', now)

    def _admits(self, authorization: bytes) -> bool:
        return not self._token or hmac.compare_digest(authorization, self._token)

    def _check_token(self, connection: Connection, asked: Asked, now: float) -> None:
        if self._admits(asked.headers.get(b"authorization", b"")):
            return
        if self._on_refused and now >= self._quiet_until:
            self._quiet_until = now + BETWEEN_REFUSALS
            self._on_refused(connection.address)
        raise Refusal(UNAUTHENTICATED, "etcdserver: invalid auth token")

    def _begin_watch(self, connection: Connection, asked: Asked) -> None:
        watch = decode(asked.body, WatchRequest)
        assert isinstance(watch, WatchRequest)
        ask = watch.create_request or WatchCreate()
        lease = _lease_of(asked)
        if 0 < ask.start_revision < self.watches.oldest:
            raise Refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
        self._tell_watchers()  # a request before this one may have changed something: that is not news for this watcher
        past = self.watches.add(connection, ask)
        self._watched[connection.socket.fileno()] = ask
        if lease:
            connection.lease = lease
            self._tied[lease] = self._tied.get(lease, 0) + 1
        connection.begin_stream()
        connection.send_chunk(frame(streamed(WatchAnswer(self.store.header(), created=True)) + b"\n"))
        if past:
            connection.send_chunk(frame(streamed(WatchAnswer(self.store.header(), events=past)) + b"\n"))

    def _tell_watchers(self) -> None:
        # Telling one may show that it is gone, and its lease with it: that is news again.
        while changes := self.store.take_changes():
            for events, watchers in self.watches.news(changes):
                chunk = frame(streamed(WatchAnswer(self.store.header(), events=events)) + b"\n")
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
        if connection.deadline is not None:
            self._slow[fd] = connection.deadline
        elif fd in self._slow:
            self._slow.remove(fd)
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Tell the loop what to wait for, when that has changed: at thousands of requests a second it seldom has."""
        events = READABLE | (WRITABLE if connection.wants_to_write else 0)
        if events != connection.awaited:
            connection.awaited = events
            self._loop.watch(connection.socket.fileno(), partial(self._on_ready, connection), events)

    def _drop(self, connection: Connection) -> None:
        fd = connection.socket.fileno()
        self._loop.forget(fd)
        self.connections.pop(fd, None)
        self._slow.remove(fd)
        ask = self._watched.pop(fd, None)
        if ask:
            self.watches.remove(connection, ask)
        connection.close()
        if connection.lease:
            self._untie(connection)

    def _untie(self, connection: Connection) -> None:
        """A client that moves on names its lease on the next connection first, so the last to end means its death, or a
        broken connection: then it is back in a moment. One that was given up because it did not read may be alive: its
        lease's own time decides."""
        lease = connection.lease
        self._tied[lease] -= 1
        if self._tied[lease]:
            return
        del self._tied[lease]
        if connection.left:
            self.store.shorten(lease, time.monotonic() + BACK_IN)


def _lease_of(asked: Asked) -> int:
    """The lease that a watch's connection keeps. flota's own idea: a real etcd does not look at it."""
    try:
        return int(asked.headers.get(LEASE_HEADER, b"0"))
    except ValueError:
        raise Refusal(INVALID, "x-flota-lease is no number") from None
