"""One connection to a store, as its client: requests out, answers in (h11), over a socket that never blocks."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import h11

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flota.store.server import Loop

READABLE, WRITABLE = 1, 4
CHUNK = 256 << 10
LARGEST_ANSWER = 64 << 20


class Link:
    """Calls `on_message(status, body)` for each answer, or each line of a stream, and `on_lost(why)` once."""

    def __init__(
        self,
        host: str,
        port: int,
        loop: Loop,
        tls: ssl.SSLContext | None,
        on_message: Callable[[int, bytes], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._host = f"{host}:{port}"
        self._loop = loop
        self._on_message = on_message
        self._on_lost = on_lost
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 << 10)
        self._out = b""
        self._body = b""
        self._status = 0
        self._streaming = False
        self._connecting = True
        self._shaking_hands = tls is not None
        self._socket: socket.socket | None = None
        self._connect(host, port, tls)

    def send(self, path: str, body: bytes, headers: list[tuple[str, str]]) -> None:
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        fixed = [("host", self._host), ("content-type", "application/json"), ("content-length", str(len(body)))]
        head = h11.Request(method="POST", target=path, headers=[*fixed, *headers])
        self._body = b""
        self._out += (self._http.send(head) or b"") + (self._http.send(h11.Data(data=body)) or b"")
        self._out += self._http.send(h11.EndOfMessage()) or b""
        self._watch()

    def stream(self, path: str, body: bytes, headers: list[tuple[str, str]]) -> None:
        """Ask for an answer that comes line by line for as long as the link lives."""
        self._streaming = True
        self.send(path, body, headers)

    def close(self) -> None:
        if self._socket:
            self._loop.forget(self._socket.fileno())
            try:
                # A process forked from this one may hold the socket too: the store must see the end all the same.
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # not connected
            self._socket.close()
            self._socket = None

    def _connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            sock = socket.socket(family, kind)
        except OSError as error:
            self._fail_later(f"{host}: {error.strerror}")
            return
        sock.setblocking(False)  # noqa: FBT003
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            self._fail_later(os.strerror(code))
            return
        self._socket = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False) if tls else sock
        self._watch()

    def _fail_later(self, why: str) -> None:
        """Calls come from the loop only, never from inside the call that asked: a pipe with a closed end wakes it."""
        reader, writer = os.pipe()
        os.close(writer)

        def fail() -> None:
            self._loop.forget(reader)
            os.close(reader)
            self._on_lost(why)

        self._loop.watch(reader, fail)

    def _watch(self) -> None:
        if self._socket:
            wants_write = self._connecting or bool(self._out)
            self._loop.watch(self._socket.fileno(), self._on_ready, READABLE | (WRITABLE if wants_write else 0))

    def _on_ready(self) -> None:
        try:
            self._proceed()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._watch()
        except (OSError, h11.RemoteProtocolError) as error:
            self.close()
            self._on_lost(getattr(error, "strerror", None) or str(error))

    def _proceed(self) -> None:
        assert self._socket is not None
        if self._connecting:
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            self._connecting = False
        if self._shaking_hands:
            assert isinstance(self._socket, ssl.SSLSocket)
            self._socket.do_handshake()
            self._shaking_hands = False
        while self._out:
            self._out = self._out[self._socket.send(self._out) :]
        self._watch()
        data = self._socket.recv(CHUNK)
        self._http.receive_data(data)
        self._read()
        if not data and self._socket:
            raise ConnectionResetError(errno.ECONNRESET, "the store closed the connection")

    def _read(self) -> None:
        while self._socket:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._status = event.status_code
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
                if len(self._body) > LARGEST_ANSWER:
                    raise h11.RemoteProtocolError("the answer is too large")
                if self._streaming and self._status == 200:
                    self._deliver_lines()
            elif isinstance(event, h11.EndOfMessage):
                if not (self._streaming and self._status == 200):
                    self._on_message(self._status, self._body)
                return
            else:
                return

    def _deliver_lines(self) -> None:
        *lines, self._body = self._body.split(b"\n")
        for line in lines:
            if line and self._socket:
                self._on_message(self._status, line)
