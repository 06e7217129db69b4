"""Serves HTTP in the node's event loop: accepts connections, limits what strangers can cost, passes requests on.

A connection is a stranger until the head of a request on it is authorized. Strangers share a small budget of memory,
and of time in each turn of the loop. The oldest one is dropped first.
"""

from __future__ import annotations

import errno
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import h11

from flota.store.deadlines import Deadlines
from flota.store.server_connection import HttpRequest, ServerConnection, close_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from flota.host.loop import Loop

READABLE, WRITABLE = 1, 4
MOST_CONNECTIONS = 20_000
STRANGERS_MEMORY = 16 << 20  # bytes: 4,096 idle strangers, or 512 with TLS
ACCEPTED_AT_ONCE = 512  # a turn of the loop with thousands of requests takes long, and the kernel's queue is short
ACCEPT_TIME = 0.05  # seconds per turn
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
ACCEPT_PAUSE = 0.5  # seconds


class HttpServer(ABC):
    """`on_full` is called with the number of connections when a client is turned away."""

    strangers_memory = STRANGERS_MEMORY

    def __init__(
        self,
        listener: socket.socket,
        loop: Loop,
        tls: ssl.SSLContext | None = None,
        on_full: Callable[[int], object] = bool,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._listener = listener
        self._listener.setblocking(False)  # noqa: FBT003
        self._loop = loop
        self._tls = tls
        self._on_full = on_full
        self._most_connections = most_connections
        self.connections: dict[int, ServerConnection] = {}
        self._strangers: dict[int, ServerConnection] = {}  # the oldest first
        self._strangers_memory = 0
        self._idle: dict[int, ServerConnection] = {}  # those of peers that carry no stream, the longest idle first
        self._slow = Deadlines()  # deadlines of requests that have begun to arrive
        loop.watch(self._listener.fileno(), self._accept)

    # What a server does with its connections.

    def accepts(self, sock: socket.socket) -> bool:
        """Whether this client may connect at all."""
        return bool(sock)

    @abstractmethod
    def is_authorized(self, authorization: bytes) -> bool:
        """Whether a request with this authorization header is a peer's."""

    @abstractmethod
    def serve(self, connection: ServerConnection, request: HttpRequest, now: float) -> None:
        """Answer a request, authorized or not."""

    @abstractmethod
    def encode_error(self, words: str) -> bytes:
        """The body of the answer to an invalid request."""

    @abstractmethod
    def after_requests(self) -> None:
        """Called when requests may have changed something."""

    @abstractmethod
    def on_dropped(self, connection: ServerConnection) -> None:
        """Called when a connection is gone."""

    # Deadlines.

    @property
    def deadline(self) -> float | None:
        """When the next incomplete request times out."""
        return self._slow.first

    def on_time(self, now: float) -> None:
        for fd in self._slow.take_due(now):
            if fd == self._listener.fileno():
                self._loop.watch(fd, self._accept)
                continue
            connection = self.connections[fd]
            connection.refuse(408, self.encode_error("the request took too long to arrive"))
            self.update(connection)

    def stop_growing(self) -> None:
        """Accept no more connections than there are now: the node has no descriptors for others."""
        self._most_connections = len(self.connections)

    def close(self) -> None:
        self._loop.forget(self._listener.fileno())
        close_socket(self._listener)
        for connection in list(self.connections.values()):
            self.drop(connection)

    # Connections.

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
            if self.accepts(sock):
                self._add(sock)
                self._keep_budget()
            else:
                sock.close()
            if time.monotonic() >= until:
                break
        self.after_requests()

    def _add(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            try:
                sock.getpeername()
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except OSError:
                sock.close()
                return  # it has already disconnected, which is an error for Python's TLS
        connection = ServerConnection(sock, time.monotonic(), self.is_authorized)
        self.connections[sock.fileno()] = self._strangers[sock.fileno()] = connection
        self._strangers_memory += connection.memory
        self.update(connection)

    def _keep_budget(self) -> None:
        while self._strangers_memory > self.strangers_memory:
            self._drop_stranger()

    def _make_room(self) -> bool:
        """Drop the oldest stranger, or else the peer's connection that has been idle the longest: peers reconnect."""
        count = len(self.connections)
        while self._strangers and len(self.connections) >= count:
            self._drop_stranger()
        if self._idle and len(self.connections) >= count:
            self.drop(next(iter(self._idle.values())))
        return len(self.connections) < count

    def _drop_stranger(self) -> None:
        """Drop the oldest stranger, unless its request has arrived: then it is served, and may be a peer."""
        fd, connection = next(iter(self._strangers.items()))
        self._proceed(connection)
        if self._strangers.get(fd) is connection:
            self.drop(connection)

    def _on_ready(self, connection: ServerConnection) -> None:
        self._proceed(connection)
        self._keep_budget()
        self.after_requests()

    def _proceed(self, connection: ServerConnection) -> None:
        """Send and receive what is possible now; serve at most one request."""
        fd, now = connection.socket.fileno(), time.monotonic()
        was_stranger, memory = connection.is_stranger, connection.memory
        try:
            request = connection.receive(now)
        except h11.RemoteProtocolError as error:
            request = None
            connection.refuse(error.error_status_hint, self.encode_error(str(error)))
        if was_stranger:
            self._strangers_memory += connection.memory - memory
            if not connection.is_stranger:
                self._forget_stranger(fd)
                self._loop.put_first(fd)
        if request and not connection.closed:
            self._idle.pop(fd, None)
            self.serve(connection, request, now)
            if not connection.is_stranger and not connection.streams:
                self._idle[fd] = connection
        self.update(connection)

    def _forget_stranger(self, fd: int) -> None:
        if stranger := self._strangers.pop(fd, None):
            self._strangers_memory -= stranger.memory

    def update(self, connection: ServerConnection) -> None:
        """After any change of a connection: send what can be sent, wait for the rest, or drop it if it is closed."""
        fd = connection.socket.fileno()
        if fd < 0 or fd not in self.connections:
            return
        connection.flush()
        if connection.closed:
            self.drop(connection)
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

    def drop(self, connection: ServerConnection) -> None:
        fd = connection.socket.fileno()
        self._loop.forget(fd)
        self.connections.pop(fd, None)
        self._forget_stranger(fd)
        self._idle.pop(fd, None)
        self._slow.remove(fd)
        connection.close()
        self.on_dropped(connection)
