"""One client of the embedded master: bytes to requests (h11) and answers to bytes, over a socket that never blocks.

An answer's head is three lines, written here: h11 takes as long to write one as to read a request. A connection has a
reader only while a request arrives, because most of them, of thousands, are idle or carry a watch.

Every limit is here: how long a request may take to arrive, how large it may be, how much may wait to be sent.
"""

from __future__ import annotations

import os
import socket
import ssl

import h11

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_HEAD = 16 << 10
LARGEST_OF_STRANGERS = 16 << 10  # bytes of a body from a client without the token, who is refused anyway
LARGEST_BODY = 2 << 20
LARGEST_BACKLOG = 32 << 20  # bytes that a client has not taken: beyond that it is given up
REQUEST_TIME = 10.0  # seconds from a request's first byte to its last
CHUNK = 64 << 10
STREAM_HEAD = b"HTTP/1.1 200 \r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


class Asked(NamedTuple):
    """One whole request."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes


class Connection:
    def __init__(self, sock: socket.socket, now: float, admits: Callable[[bytes], bool]) -> None:
        """`admits`: whether a request's authorization is good; what others send is not kept."""
        self.socket = sock
        self._admits = admits
        self._largest = LARGEST_BODY
        self.streaming = False
        self.closed = False
        self.left = False  # the client has ended it, by itself or with its process
        self.lease = 0  # ends with the client
        self.awaited = 0  # the events that the loop has been told to wait for
        self.idle_since = now
        self.request_began: float | None = None
        self._reader: h11.Connection | None = None
        self._head: h11.Request | None = None
        self._body = b""
        self._pipelined = b""
        self._out: list[memoryview] = []
        self._waiting = 0
        self._last_answer = False
        self._shaking_hands = isinstance(sock, ssl.SSLSocket)

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    @property
    def address(self) -> str:
        try:
            return str(self.socket.getpeername()[0])
        except OSError:
            return "a client that has left"

    @property
    def deadline(self) -> float | None:
        """When a request that has begun must have arrived."""
        return None if self.request_began is None else self.request_began + REQUEST_TIME

    def receive(self, now: float) -> Asked | None:
        """The request that has arrived whole. Raises h11.RemoteProtocolError for what is no HTTP."""
        try:
            if self._shaking_hands:
                self.request_began = self.request_began or now
                self.socket.do_handshake()  # type: ignore[attr-defined]
                self._shaking_hands = False
            data = self.socket.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            if getattr(error, "reason", "") == "HTTP_REQUEST":
                self._answer_plainly()
            data = b""
        if not data:
            self.closed = self.left = True
            return None
        if self.streaming:
            return None  # a watch's client has nothing more to say
        self.request_began = self.request_began or now
        return self._requests(data, now)

    def _answer_plainly(self) -> None:
        """To a client that speaks HTTP where TLS is wanted: silence would let it ask for ever."""
        try:
            os.write(
                self.socket.fileno(), b"HTTP/1.1 400 TLS is wanted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        except OSError:
            pass

    def _requests(self, data: bytes, now: float) -> Asked | None:
        if self._reader is None:
            self._reader = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._reader.receive_data(data)
        while True:
            event = self._reader.next_event()
            if isinstance(event, h11.Request):
                self._head, self._body = event, b""
                admitted = self._admits(dict(event.headers).get(b"authorization", b""))
                self._largest = LARGEST_BODY if admitted else LARGEST_OF_STRANGERS
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
                if len(self._body) > self._largest:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage):
                return self._whole(now)
            elif isinstance(event, h11.ConnectionClosed):
                self.closed = True
                return None
            else:
                return None  # more has to come

    def _whole(self, now: float) -> Asked:
        assert self._head is not None
        assert self._reader is not None
        path = self._head.target.decode("ascii", "replace")
        asked = Asked(self._head.method.decode(), path, dict(self._head.headers), self._body)
        # HTTP/1.0, or the client has said so; and no answer to HEAD may have a body, which all of ours have.
        self._last_answer = self._reader.their_state is h11.MUST_CLOSE or asked.method == "HEAD"
        self._pipelined = bytes(self._reader.trailing_data[0])
        self._reader = self._head = self.request_began = None
        self._body = b""
        self.idle_since = now
        return asked

    def answer(self, status: int, body: bytes, now: float) -> Asked | None:
        """Send an answer; a request that was waiting behind it (pipelined) comes back."""
        self._send(self._answer_head(status, len(body)) + body)
        data, self._pipelined = self._pipelined, b""
        if self._last_answer or not data:
            return None
        self.request_began = now
        return self._requests(data, now)

    def _answer_head(self, status: int, length: int) -> bytes:
        close = "connection: close\r\n" if self._last_answer else ""
        return (
            f"HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{close}\r\n"
        ).encode()

    def begin_stream(self) -> None:
        """From here on this connection carries a watch's events."""
        self.streaming = True
        self._last_answer = False
        self._send(STREAM_HEAD)

    def send_chunk(self, chunk: bytes) -> None:
        """A chunk framed by `frame`: the same bytes for every watcher."""
        self._send(chunk)

    def _send(self, data: bytes | None) -> None:
        if data and not self.closed:
            self._out.append(memoryview(data))
            self._waiting += len(data)
            if self._waiting > LARGEST_BACKLOG:
                self.closed = True

    def flush(self) -> None:
        """Hand over what the client takes without waiting."""
        if len(self._out) > 1 and self._waiting < CHUNK:
            self._out = [memoryview(b"".join(self._out))]  # one packet for several small chunks
        taken = 0
        try:
            while taken < len(self._out):
                part = self._out[taken]
                sent = self.socket.send(part)
                self._waiting -= sent
                if sent < len(part):
                    self._out[taken] = part[sent:]
                else:
                    taken += 1
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.closed = self.left = True
        del self._out[:taken]
        self.closed = self.closed or (self._last_answer and not self._out)

    def close(self) -> None:
        self.closed = True
        try:
            # A process forked from this one may hold the socket too: without this the client would not see the end.
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the client was first
        self.socket.close()

    def refuse(self, status: int, body: bytes) -> None:
        """The last answer on a connection that cannot be trusted to speak HTTP any more."""
        self._last_answer = True
        self._send(self._answer_head(status, len(body)) + body)
        self.flush()
        self.closed = True


def frame(data: bytes) -> bytes:
    """One chunk of a streamed answer."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
