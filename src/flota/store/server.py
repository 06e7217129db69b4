"""The embedded master: a key-value store with the API of etcd's v3 JSON gateway, in the node's event loop.

A connection is a stranger until the head of a request on it has the job's token (without a token: any valid head).
Strangers share a small budget of memory, and of time in each turn of the loop. The oldest one is dropped first.
"""

from __future__ import annotations

import errno
import hmac
import os
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial

import h11

from flota.store import etcd_json as etcd
from flota.store.deadlines import Deadlines
from flota.store.kv import KeyValueStore
from flota.store.server_connection import HttpRequest, ServerConnection, close_socket, frame
from flota.store.server_watches import ServerWatches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.host.loop import Loop

READABLE, WRITABLE = 1, 4
MOST_CONNECTIONS = 20_000
STRANGERS_MEMORY = 16 << 20  # bytes: 4,096 idle strangers, or 512 with TLS
ACCEPTED_AT_ONCE = 512  # a turn of the loop with thousands of requests takes long, and the kernel's queue is short
ACCEPT_TIME = 0.05  # seconds per turn
BACKLOG = 4096
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
ACCEPT_PAUSE = 0.5  # seconds
REPORT_INTERVAL = 1.0  # seconds between messages about strangers, doubled with each: they must not fill the log
LONGEST_REPORT_INTERVAL = 600.0
RECONNECT_TIME = 0.25  # seconds in which a client whose connections broke must renew its lease
LEASE_HEADER = b"x-flota-lease"  # names the lease that is shortened when the watch ends; etcd ignores it
LONGEST_LEASE_ID = 19  # digits
VERSION = b"3.4.0"  # clients choose the path of the API by it
STATUS = "/v3/maintenance/status"
REQUESTS = {path: kind for kind, (path, _) in etcd.ROUTES.items() if kind is not etcd.Authenticate}
REQUESTS["/v3/kv/lease/revoke"] = etcd.LeaseRevoke  # etcd's other path for the same request
# From gRPC codes to HTTP status, as in etcd's gateway.
HTTP_STATUS = {3: 400, 5: 404, 8: 429, 9: 400, 11: 400, 12: 501, 16: 401}


class Master:
    """Serves until `close`. The owner calls `on_time` when `deadline` has passed.

    `on_refused` is called with the address of a client with a wrong token, `on_full` when a client is turned away; both
    seldom, however often that happens.
    """

    def __init__(
        self,
        address: str,
        port: int,
        loop: Loop,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        on_refused: Callable[[str], object] = bool,
        on_full: Callable[[int], object] = bool,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=BACKLOG, reuse_port=False)
        self._listener.setblocking(False)  # noqa: FBT003
        self.port: int = self._listener.getsockname()[1]
        self._loop = loop
        self._token = token.encode()
        self._tls = tls
        self._on_refused = seldom(on_refused)
        self._on_full = seldom(on_full)
        self._most_connections = most_connections
        self.store = KeyValueStore(_new_lease_id)
        self.watches = ServerWatches()
        self.connections: dict[int, ServerConnection] = {}
        self._strangers: dict[int, ServerConnection] = {}  # the oldest first
        self._strangers_memory = 0
        self._idle: dict[int, ServerConnection] = {}  # those of peers that carry no watch, the longest idle first
        self._slow = Deadlines()  # deadlines of requests that have begun to arrive
        self._lease_connections: dict[int, int] = {}  # number of connections by lease
        loop.watch(self._listener.fileno(), self._accept)

    @property
    def deadline(self) -> float | None:
        """When the next lease expires, or the next incomplete request times out."""
        return min((end for end in (self.store.deadline, self._slow.first) if end is not None), default=None)

    def on_time(self, now: float) -> None:
        for fd in self._slow.take_due(now):
            if fd == self._listener.fileno():
                self._loop.watch(fd, self._accept)
                continue
            connection = self.connections[fd]
            connection.refuse(408, etcd.encode_error(etcd.INVALID, "the request took too long to arrive"))
            self._update(connection)
        self.store.expire(now)
        self._send_events()

    def stop_growing(self) -> None:
        """Accept no more connections than there are now: the node has no descriptors for others."""
        self._most_connections = len(self.connections)

    def close(self) -> None:
        self._loop.forget(self._listener.fileno())
        close_socket(self._listener)
        for connection in list(self.connections.values()):
            self._drop(connection)

    def _accept(self) -> None:
        until = time.monotonic() + ACCEPT_TIME
        for number in range(ACCEPTED_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                # Linux reports this even if no client waits: only the first call is certain.
                if error.errno in OUT_OF_DESCRIPTORS and number == 0 and not self._make_room():
                    # New clients stay in the kernel's queue; without a pause the loop would spin.
                    self._loop.forget(self._listener.fileno())
                    self._slow[self._listener.fileno()] = time.monotonic() + ACCEPT_PAUSE
                    self._on_full(len(self.connections))
                break
            if len(self.connections) >= self._most_connections and not self._make_room():
                sock.close()
                self._on_full(len(self.connections))
                break
            self._add(sock)
            while self._strangers_memory > STRANGERS_MEMORY:
                self._drop_stranger()
            if time.monotonic() >= until:
                break
        self._send_events()

    def _add(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            try:
                sock.getpeername()
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except OSError:
                sock.close()
                return  # it has already disconnected, which is an error for Python's TLS
        connection = ServerConnection(sock, time.monotonic(), self._is_authorized)
        self.connections[sock.fileno()] = self._strangers[sock.fileno()] = connection
        self._strangers_memory += connection.memory
        self._update(connection)

    def _make_room(self) -> bool:
        """Drop the oldest stranger, or else the peer's connection that has been idle the longest: peers reconnect."""
        count = len(self.connections)
        while self._strangers and len(self.connections) >= count:
            self._drop_stranger()
        if self._idle and len(self.connections) >= count:
            self._drop(next(iter(self._idle.values())))
        return len(self.connections) < count

    def _drop_stranger(self) -> None:
        """Drop the oldest stranger, unless its request has arrived: then it is served, and may be a peer."""
        fd, connection = next(iter(self._strangers.items()))
        self._proceed(connection)
        if self._strangers.get(fd) is connection:
            self._drop(connection)

    def _on_ready(self, connection: ServerConnection) -> None:
        self._proceed(connection)
        while self._strangers_memory > STRANGERS_MEMORY:
            self._drop_stranger()
        self._send_events()

    def _proceed(self, connection: ServerConnection) -> None:
        """Send and receive what is possible now; serve at most one request."""
        fd, now = connection.socket.fileno(), time.monotonic()
        was_stranger, memory = connection.is_stranger, connection.memory
        try:
            request = connection.receive(now)
        except h11.RemoteProtocolError as error:
            request = None
            connection.refuse(error.error_status_hint, etcd.encode_error(etcd.INVALID, str(error)))
        if was_stranger:
            self._strangers_memory += connection.memory - memory
            if not connection.is_stranger:
                self._forget_stranger(fd)
                self._loop.put_first(fd)
        if request and not connection.closed:
            self._idle.pop(fd, None)
            self._serve(connection, request, now)
            if not connection.is_stranger and not connection.watch:
                self._idle[fd] = connection
        self._update(connection)

    def _forget_stranger(self, fd: int) -> None:
        if stranger := self._strangers.pop(fd, None):
            self._strangers_memory -= stranger.memory

    def _serve(self, connection: ServerConnection, http: HttpRequest, now: float) -> None:
        if not self._is_authorized(http.headers.get(b"authorization", b"")):
            self._on_refused(connection.address)
            words = "etcdserver: invalid auth token"
            connection.refuse(HTTP_STATUS[etcd.UNAUTHENTICATED], etcd.encode_error(etcd.UNAUTHENTICATED, words))
            return
        try:
            if http.method == "POST" and REQUESTS.get(http.path) is etcd.WatchRequest:
                self._begin_watch(connection, http)
            else:
                connection.answer(200, self._answer(http, now))
        except etcd.Refusal as refusal:
            connection.answer(HTTP_STATUS[refusal.code], etcd.encode_error(refusal.code, refusal.words))

    def _answer(self, http: HttpRequest, now: float) -> bytes:
        if (http.method, http.path) == ("GET", "/version"):
            return b'{"etcdserver":"%s","etcdcluster":"%s"}' % (VERSION, VERSION)
        if (http.method, http.path) == ("POST", STATUS):
            return b'{"header":%s,"version":"%s"}' % (etcd.encode(self.store.header()), VERSION)
        if http.method != "POST" or http.path not in REQUESTS:
            raise etcd.Refusal(etcd.UNIMPLEMENTED, f"{http.method} {http.path} is not supported by this store")
        request = etcd.decode(http.body, REQUESTS[http.path])
        answer = self.store.answer(request, now)
        return etcd.encode_streamed(answer) if isinstance(request, etcd.STREAMED) else etcd.encode(answer)

    def _is_authorized(self, authorization: bytes) -> bool:
        return not self._token or hmac.compare_digest(authorization, self._token)

    def _begin_watch(self, connection: ServerConnection, http: HttpRequest) -> None:
        request = etcd.decode(http.body, etcd.WatchRequest)
        assert isinstance(request, etcd.WatchRequest)
        watch = request.create_request
        lease = http.headers.get(LEASE_HEADER, b"0")
        if not lease.isdigit() or len(lease) > LONGEST_LEASE_ID:
            raise etcd.Refusal(etcd.INVALID, "x-flota-lease is not a number")
        if 0 < watch.start_revision < self.watches.oldest:
            raise etcd.Refusal(etcd.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
        past = self.watches.add(connection, watch)
        connection.lease = int(lease)
        if connection.lease:
            self._lease_connections[connection.lease] = self._lease_connections.get(connection.lease, 0) + 1
        first = frame(etcd.encode_streamed(etcd.WatchAnswer(self.store.header(), created=True)))
        if past:
            first += frame(etcd.encode_streamed(etcd.WatchAnswer(self.store.header(), events=past)))
        connection.begin_stream(watch, first)

    def _send_events(self) -> None:
        # Sending may reveal that a watcher is gone, and its lease with it, which causes more events.
        while events := self.store.take_events():
            for chosen, watchers in self.watches.publish(events):
                chunk = frame(etcd.encode_streamed(etcd.WatchAnswer(self.store.header(), events=chosen)))
                for watcher in list(watchers):
                    assert isinstance(watcher, ServerConnection)
                    watcher.send(chunk)
                    self._update(watcher)

    def _update(self, connection: ServerConnection) -> None:
        """After any change of a connection: send what can be sent, wait for the rest, or drop it if it is closed."""
        fd = connection.socket.fileno()
        if fd < 0 or fd not in self.connections:
            return
        connection.flush()
        if connection.closed:
            self._drop(connection)
            return
        if connection.deadline is not None:
            self._slow[fd] = connection.deadline
        else:
            self._slow.remove(fd)
        self._watch(connection)

    def _watch(self, connection: ServerConnection) -> None:
        """Update the events for which the loop waits, if they have changed: they rarely do."""
        events = WRITABLE if connection.unsent else READABLE
        if events != connection.awaited:
            connection.awaited = events
            callback = partial(self._on_ready, connection)
            self._loop.watch(connection.socket.fileno(), callback, events, last=connection.is_stranger)

    def _drop(self, connection: ServerConnection) -> None:
        fd = connection.socket.fileno()
        self._loop.forget(fd)
        self.connections.pop(fd, None)
        self._forget_stranger(fd)
        self._idle.pop(fd, None)
        self._slow.remove(fd)
        if connection.watch:
            self.watches.remove(connection, connection.watch)
        connection.close()
        lease = connection.lease
        others = self._lease_connections.pop(lease, 1) - 1
        if others:
            self._lease_connections[lease] = others
        elif lease and connection.ended_by_client:
            # A client that moves to another connection names its lease there first. So the end of the last one means
            # that the client is dead, or that its connection broke: then it renews the lease at once. A client that was
            # dropped because it did not read may be alive: its lease is not shortened.
            self.store.shorten(lease, time.monotonic() + RECONNECT_TIME)


def seldom(function: Callable[..., object]) -> Callable[..., None]:
    """Call the function at intervals that double, whatever the number of calls."""
    next_at, interval = 0.0, REPORT_INTERVAL

    def call(*arguments: object) -> None:
        nonlocal next_at, interval
        now = time.monotonic()
        if now >= next_at:
            next_at, interval = now + interval, min(2 * interval, LONGEST_REPORT_INTERVAL)
            function(*arguments)

    return call


def _new_lease_id() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 1 or 1
