"""One client of the embedded master: bytes to requests (h11) and answers to bytes, over a socket that never blocks.

An answer's head is three lines, written here: h11 takes as long to write one as to read a request. A connection has a
reader only while a request arrives, because most of them, of thousands, are idle or carry a watch.

Every limit is here: how long a request may take to arrive, how large it may be, how much may wait to be sent.
"""

import os
import socket
import ssl
from collections.abc import Callable

import h11

from flota.store.etcd_json import WatchCreate
from flota.values import NamedTuple

LONGEST_HEAD = 16 << 10
LARGEST_UNAUTHORIZED_BODY = 16 << 10  # from a client without the token, which is refused anyway
LARGEST_BODY = 2 << 20
LARGEST_BACKLOG = 32 << 20  # bytes that a client has not taken: beyond that it is given up
REQUEST_TIME = 10.0  # seconds from a request's first byte to its last
CHUNK = 64 << 10
TLS_REQUIRED = b"HTTP/1.1 400 TLS is required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 \r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


class HttpRequest(NamedTuple):
    """One whole request."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes


class ServerConnection:
    def __init__(self, sock: socket.socket, now: float, is_authorized: Callable[[bytes], bool]) -> None:
        """`is_authorized` checks a request's authorization: large bodies of others are not kept."""
        self.socket = sock
        self._is_authorized = is_authorized
        self._largest = LARGEST_BODY
        self.watch: WatchCreate | None = None  # what is streamed
        self.lease = 0  # ends with the client
        self.closed = False
        self.ended_by_client = False  # by itself or with its process
        self.awaited = 0  # the events that the loop waits for
        self.idle_since = now
        self.deadline: float | None = None  # when a request that has begun must have arrived
        self._reader: h11.Connection | None = None
        self._head: h11.Request | None = None
        self._body = b""
        self.unsent: list[memoryview] = []
        self._unsent_bytes = 0
        self._last_answer = False
        self._shaking_hands = isinstance(sock, ssl.SSLSocket)

    @property
    def address(self) -> str:
        try:
            return str(self.socket.getpeername()[0])
        except OSError:
            return "a client that has left"

    def receive(self, now: float) -> HttpRequest | None:
        """The request, once all of it has arrived. Raises h11.RemoteProtocolError for what is not HTTP."""
        try:
            if self._shaking_hands:
                self.deadline = self.deadline or now + REQUEST_TIME
                self.socket.do_handshake()  # type: ignore[attr-defined]
                self._shaking_hands = False
            data = self.socket.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            if getattr(error, "reason", "") == "HTTP_REQUEST":
                self._answer_without_tls()
            data = b""
        if not data:
            self.closed = self.ended_by_client = True
            return None
        if self.watch:
            return None  # nothing that a watch's client sends matters
        self.deadline = self.deadline or now + REQUEST_TIME
        return self._parse(data, now)

    def _answer_without_tls(self) -> None:
        """To a client that speaks HTTP where TLS is required: without an answer it would retry for ever."""
        try:
            os.write(self.socket.fileno(), TLS_REQUIRED)
        except OSError:
            pass

    def _parse(self, data: bytes, now: float) -> HttpRequest | None:
        if self._reader is None:
            self._reader = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._reader.receive_data(data)
        while True:
            event = self._reader.next_event()
            if isinstance(event, h11.Request):
                self._head, self._body = event, b""
                authorized = self._is_authorized(dict(event.headers).get(b"authorization", b""))
                self._largest = LARGEST_BODY if authorized else LARGEST_UNAUTHORIZED_BODY
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
                if len(self._body) > self._largest:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage):
                return self._whole(now)
            else:
                return None  # more has to come

    def _whole(self, now: float) -> HttpRequest:
        assert self._head is not None
        assert self._reader is not None
        path = self._head.target.decode("ascii", "replace")
        request = HttpRequest(self._head.method.decode(), path, dict(self._head.headers), self._body)
        # HTTP/1.0, or the client has asked for it. No answer to HEAD may have a body, which all of ours have. A client
        # that pipelines has to send the next request again: HTTP/1.1 allows that.
        pipelined = bool(self._reader.trailing_data[0])
        self._last_answer = self._reader.their_state is h11.MUST_CLOSE or request.method == "HEAD" or pipelined
        self._reader = self._head = self.deadline = None
        self._body = b""
        self.idle_since = now
        return request

    def answer(self, status: int, body: bytes) -> None:
        close = "connection: close\r\n" if self._last_answer else ""
        head = f"HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{close}\r\n"
        self.send(head.encode() + body)

    def begin_stream(self, watch: WatchCreate, first: bytes) -> None:
        """From here on this connection carries a watch's events."""
        self.watch = watch
        self._last_answer = False
        self.send(STREAM_HEAD + first)

    def send(self, data: bytes) -> None:
        """Chunks are the same object for every watcher: what waits to be sent is kept once."""
        if not self.closed:
            self.unsent.append(memoryview(data))
            self._unsent_bytes += len(data)
            if self._unsent_bytes > LARGEST_BACKLOG:
                self.closed = True

    def flush(self) -> None:
        """Send what the client takes without waiting."""
        try:
            while self.unsent:
                sent = self.socket.send(self.unsent[0])
                self._unsent_bytes -= sent
                if sent < len(self.unsent[0]):
                    self.unsent[0] = self.unsent[0][sent:]
                else:
                    del self.unsent[0]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.closed = self.ended_by_client = True
        self.closed = self.closed or (self._last_answer and not self.unsent)

    def close(self) -> None:
        self.closed = True
        close_socket(self.socket)

    def refuse(self, status: int, body: bytes) -> None:
        """The last answer on a connection that cannot be trusted to speak HTTP any more."""
        self._last_answer = True
        self.answer(status, body)
        self.flush()
        self.closed = True


def frame(data: bytes) -> bytes:
    """One chunk of a streamed answer."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def close_socket(sock: socket.socket) -> None:
    try:
        # A process forked from this one may hold the socket too: without this the other side would not see the end.
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # not connected, or the other side was first
    sock.close()
