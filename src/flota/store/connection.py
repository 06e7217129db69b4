"""One client of the embedded master: bytes to requests and answers to bytes (h11), over a socket that never blocks.

Every limit is here: how long a request may take to arrive, how large it may be, how much may wait to be sent.
"""

from __future__ import annotations

import ssl

import h11

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

LONGEST_HEAD = 16 << 10
LARGEST_BODY = 2 << 20
LARGEST_BACKLOG = 32 << 20  # bytes that a client has not taken: beyond that it is given up
REQUEST_TIME = 10.0  # seconds from a request's first byte to its last
CHUNK = 64 << 10


class Asked(NamedTuple):
    """One whole request."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    body: bytes


class Connection:
    def __init__(self, sock: socket.socket, now: float) -> None:
        self.socket = sock
        self.streaming = False
        self.closed = False
        self.idle_since = now
        self.request_began: float | None = None
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._head: h11.Request | None = None
        self._body = b""
        self._out: list[memoryview] = []
        self._waiting = 0
        self._last_answer = False
        self._shaking_hands = isinstance(sock, ssl.SSLSocket)

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    @property
    def deadline(self) -> float | None:
        """When a request that has begun must have arrived."""
        return None if self.request_began is None else self.request_began + REQUEST_TIME

    def receive(self, now: float) -> list[Asked]:
        """The requests that have arrived whole. Raises h11.RemoteProtocolError for what is no HTTP."""
        try:
            if self._shaking_hands:
                self.request_began = self.request_began or now
                self.socket.do_handshake()  # type: ignore[attr-defined]
                self._shaking_hands = False
            data = self.socket.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return []
        except OSError:
            self.closed = True
            return []
        if not data:
            self.closed = True
            return []
        if self.streaming:
            return []  # a watch's client has nothing more to say
        self.request_began = self.request_began or now
        self._http.receive_data(data)
        return self._requests(now)

    def _requests(self, now: float) -> list[Asked]:
        asked: list[Asked] = []
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._head, self._body = event, b""
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
                if len(self._body) > LARGEST_BODY:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage):
                assert self._head is not None
                headers = dict(self._head.headers)
                path = self._head.target.decode("ascii", "replace")
                asked.append(Asked(self._head.method.decode(), path, headers, self._body))
                self.request_began = None
                self.idle_since = now
                return asked
            elif isinstance(event, h11.ConnectionClosed):
                self.closed = True
                return asked
            else:
                return asked  # NEED_DATA, or PAUSED until the answer is sent

    def answer(self, status: int, body: bytes, now: float) -> list[Asked]:
        """Send an answer; requests that were waiting behind it (pipelined) come back."""
        self._begin(status, len(body))
        self._send(self._http.send(h11.Data(data=body)))
        self._send(self._http.send(h11.EndOfMessage()))
        if self._http.our_state is h11.MUST_CLOSE:
            self._last_answer = True
            return []
        self._http.start_next_cycle()
        return self._requests(now)

    def begin_stream(self) -> None:
        """From here on this connection carries a watch's events."""
        self.streaming = True
        headers = [("content-type", "application/json"), ("transfer-encoding", "chunked")]
        self._send(self._http.send(h11.Response(status_code=200, headers=headers)))

    def send_chunk(self, chunk: bytes) -> None:
        """A chunk framed by `frame`: the same bytes for every watcher."""
        self._send(chunk)

    def _begin(self, status: int, length: int) -> None:
        headers = [("content-type", "application/json"), ("content-length", str(length))]
        self._send(self._http.send(h11.Response(status_code=status, headers=headers)))

    def _send(self, data: bytes | None) -> None:
        if data and not self.closed:
            self._out.append(memoryview(data))
            self._waiting += len(data)
            if self._waiting > LARGEST_BACKLOG:
                self.closed = True

    def flush(self) -> None:
        """Hand over what the client takes without waiting."""
        try:
            if len(self._out) > 1 and self._waiting < CHUNK:
                self._out = [memoryview(b"".join(self._out))]  # one packet for an answer's head and body
            while self._out:
                sent = self.socket.send(self._out[0])
                self._waiting -= sent
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                else:
                    del self._out[0]
            self.closed = self.closed or self._last_answer
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.closed = True

    def refuse(self, status: int, body: bytes) -> None:
        """The last answer on a connection that cannot be trusted to speak HTTP any more."""
        try:
            self._begin(status, len(body))
            self._send(self._http.send(h11.Data(data=body)))
            self.flush()
        except h11.LocalProtocolError:
            pass
        self.closed = True


def frame(data: bytes) -> bytes:
    """One chunk of a streamed answer."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
