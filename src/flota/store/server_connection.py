"""One client connection of a server in the node's loop: parses requests (h11) and sends answers, without blocking.

The head of an answer is written here: h11 takes as long to write one as to read a request. A connection has a parser
only while a request arrives, because most of thousands of connections are idle or carry a watch.

All limits are here: how long a request may take to arrive, how large it may be, how much may wait to be sent.
"""

import os
import socket
import sys
from collections.abc import Callable

import h11

from flota.store.etcd_json import WatchCreate
from flota.values import NamedTuple

LONGEST_HEAD = 16 << 10
LARGEST_UNAUTHORIZED_BODY = 16 << 10  # from a client without the token, which is refused anyway
LARGEST_BODY = 2 << 20
LARGEST_BACKLOG = 32 << 20  # bytes that a client has not read: beyond that it is dropped
REQUEST_TIME = 10.0  # seconds from a request's first byte to its last, and until the first request
CHUNK = 64 << 10
STRANGERS_CHUNK = 16 << 10  # a TLS record: the rest of one would wait unseen inside the TLS library
MOST_EVENTS = 256  # that the parser may find in one chunk: a body of tiny parts takes long
PLAIN_MEMORY, TLS_MEMORY = 4 << 10, 32 << 10  # bytes that a connection takes before it has received anything
TLS_REQUIRED = b"HTTP/1.1 400 TLS is required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
JSON = "application/json"


class HttpRequest(NamedTuple):
    """One complete request."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes


class ServerConnection:
    def __init__(self, sock: socket.socket, now: float, is_authorized: Callable[[bytes], bool]) -> None:
        """`is_authorized` checks the authorization header: bodies are kept for authorized clients only."""
        self.socket = sock
        self._is_authorized = is_authorized
        self.is_stranger = True  # until the head of a request has authorized it
        uses_tls = hasattr(sock, "do_handshake")
        self.memory = TLS_MEMORY if uses_tls else PLAIN_MEMORY  # of a stranger, in bytes
        self.streams = False  # its answer has no end: the client's later requests are ignored
        self.watch: WatchCreate | None = None  # the watch whose events are streamed
        self.lease = 0  # the lease that ends with the client
        self.closed = False
        self.ended_by_client = False  # by itself or with its process
        self.awaited = 0  # the events for which the loop waits
        self.deadline: float | None = now + REQUEST_TIME  # when the first request, or one that has begun, is complete
        self._reader: h11.Connection | None = None
        self._head: h11.Request | None = None
        self._body = b""
        self._body_size = 0
        self._authorized = False
        self.unsent: list[memoryview] = []
        self._unsent_bytes = 0
        self._last_answer = False
        self._handshaking = uses_tls

    @property
    def address(self) -> str:
        try:
            return str(self.socket.getpeername()[0])
        except OSError:
            return "a disconnected client"

    def receive(self, now: float) -> HttpRequest | None:
        """The request, once it is complete. Raises h11.RemoteProtocolError for invalid HTTP.

        Reads nothing while an answer waits to be sent: a client that does not take its answers gets no more of them.
        """
        self.flush()
        if self.unsent or self.closed:
            return None
        try:
            if self._handshaking:
                self.socket.do_handshake()  # type: ignore[attr-defined]
                self._handshaking = False
            data = self.socket.recv(STRANGERS_CHUNK if self.is_stranger else CHUNK)
        except would_block():
            return None
        except OSError as error:
            if getattr(error, "reason", "") == "HTTP_REQUEST":
                self._answer_without_tls()
            data = b""
        if not data:
            self.closed = self.ended_by_client = True
            return None
        if self.streams:
            return None
        self.deadline = self.deadline or now + REQUEST_TIME
        self.memory += len(data)
        return self._parse(data)

    def _answer_without_tls(self) -> None:
        """Answer a client that uses HTTP where TLS is required: without an answer it would retry forever."""
        try:
            os.write(self.socket.fileno(), TLS_REQUIRED)
        except OSError:
            pass

    def _parse(self, data: bytes) -> HttpRequest | None:
        if self._reader is None:
            self._reader = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._reader.receive_data(data)
        for _ in range(MOST_EVENTS):
            event = self._reader.next_event()
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data):
                self._add(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return self._complete()
            else:
                return None  # not complete yet
        raise h11.RemoteProtocolError("the body has too many parts", error_status_hint=413)

    def _begin(self, head: h11.Request) -> None:
        self._head, self._body, self._body_size = head, b"", 0
        self._authorized = self._is_authorized(dict(head.headers).get(b"authorization", b""))
        self.is_stranger = self.is_stranger and not self._authorized

    def _add(self, data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > (LARGEST_BODY if self._authorized else LARGEST_UNAUTHORIZED_BODY):
            raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
        if self._authorized:
            self._body += data

    def _complete(self) -> HttpRequest:
        assert self._head is not None
        assert self._reader is not None
        path = self._head.target.decode("ascii", "replace")
        request = HttpRequest(self._head.method.decode(), path, dict(self._head.headers), self._body)
        # Close the connection after HTTP/1.0, if the client requests it, and after HEAD, because an answer to HEAD must
        # not have a body. A client that pipelines must send the next request again: HTTP/1.1 allows that.
        pipelined = bool(self._reader.trailing_data[0])
        self._last_answer = self._reader.their_state is h11.MUST_CLOSE or request.method == "HEAD" or pipelined
        self._reader = self._head = self.deadline = None
        self._body = b""
        return request

    def answer(self, status: int, body: bytes, kind: str = JSON, headers: str = "") -> None:
        """Each of the `headers` ends with CRLF."""
        close = "connection: close\r\n" if self._last_answer else ""
        head = f"HTTP/1.1 {status} \r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{headers}{close}\r\n"
        self.send(head.encode() + body)

    def begin_stream(self, first: bytes) -> None:
        """From now on this connection carries the chunks of one answer."""
        self.streams = True
        self._last_answer = False
        head = f"HTTP/1.1 200 \r\ncontent-type: {JSON}\r\ntransfer-encoding: chunked\r\n\r\n"
        self.send(head.encode() + first)

    def send(self, data: bytes) -> None:
        """Queue data. Chunks are shared by all watchers, so what waits to be sent is in memory once."""
        if not self.closed:
            self.unsent.append(memoryview(data))
            self._unsent_bytes += len(data)
            if self._unsent_bytes > LARGEST_BACKLOG:
                self.closed = True

    def flush(self) -> None:
        """Send as much as possible without blocking."""
        try:
            while self.unsent:
                sent = self.socket.send(self.unsent[0])
                self._unsent_bytes -= sent
                if sent < len(self.unsent[0]):
                    self.unsent[0] = self.unsent[0][sent:]
                else:
                    del self.unsent[0]
        except would_block():
            pass
        except OSError:
            self.closed = self.ended_by_client = True
        self.closed = self.closed or (self._last_answer and not self.unsent)

    def close(self) -> None:
        self.closed = True
        close_socket(self.socket)

    def refuse(self, status: int, body: bytes) -> None:
        """Send a last answer, as far as that is possible at once, and close: the request is invalid or not allowed."""
        self._last_answer = True
        self.answer(status, body)
        self.flush()
        self.closed = True


def frame(data: bytes) -> bytes:
    """One HTTP chunk."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def would_block() -> tuple[type[OSError], ...]:
    """What a socket raises that is not ready. Python's ssl is loaded by users of TLS only: that takes milliseconds."""
    ssl = sys.modules.get("ssl")
    return (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) if ssl else (BlockingIOError,)


def close_socket(sock: socket.socket) -> None:
    try:
        # A process forked from this one may still hold the socket: without this the peer would not see the end.
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # not connected, or already closed by the peer
    sock.close()
