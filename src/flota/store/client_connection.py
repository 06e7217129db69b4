"""One client connection to a store: sends requests and parses answers (h11), over a non-blocking socket."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

import h11

from flota.job.roster import endpoint
from flota.store.dns import Lookup, numeric
from flota.store.etcd_json import UNKNOWN, BadServerCertificate, NotAStore, Refusal
from flota.store.server_connection import close_socket
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from flota.host.loop import Loop
    from flota.store.dns import Address

READABLE, WRITABLE = 1, 4
CHUNK = 256 << 10
LARGEST_ANSWER = 64 << 20
# A watch may be idle for days: a dropped connection must be noticed. Idle seconds, interval in seconds, probes.
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class Lost(NamedTuple):
    """No answer: the member was unreachable, or took too long."""

    why: str


class ClientConnection:
    """Calls `on_message(status, body)` for each answer, or each line of a stream, and `on_lost` at most once.

    Both are called from the loop only, never from inside `send`. A name may have several addresses, and a store one of
    several ports: they are tried in turn, beginning with number `first`, modulo their count.
    """

    def __init__(
        self,
        host: str,
        port: int,
        loop: Loop,
        tls: ssl.SSLContext | None,
        on_message: Callable[[int, bytes], None],
        on_lost: Callable[[Lost | Refusal], None],
        first: int = 0,
        spare_ports: tuple[int, ...] = (),
    ) -> None:
        self._host = host
        self._ports = (port, *spare_ports)
        self.port = port  # the one of the last connection
        self._endpoint = endpoint(host, str(port))
        self._loop = loop
        self._tls = tls
        self._on_message = on_message
        self._on_lost = on_lost
        self._first = first
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 << 10)
        self._out = b""
        self._body = b""
        self._status = 0
        self._has_received = False
        self._arrived: list[tuple[int, bytes]] = []
        self._streaming = False
        self._closed = False
        self._connecting = True
        self._refused = 0
        self._handshaking = tls is not None
        self._socket: socket.socket | None = None
        self._lookup: Lookup | None = None
        self._addresses = self._in_turn(numeric(host, port))
        if self._addresses:
            self._connect()
        else:
            self._lookup = Lookup(host, port)
            loop.watch(self._lookup.fd, self._on_looked_up)

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent: a store may close the connection after its answer."""
        return bool(self._socket or self._lookup)

    def send(self, path: str, body: bytes, headers: list[tuple[str, str]], *, stream: bool = False) -> None:
        """With `stream`, the answer arrives line by line until the connection is closed."""
        self._streaming = stream
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        host = self._endpoint.encode("ascii", "replace").decode()  # no store reads it, but HTTP requires it
        fixed = [("host", host), ("content-type", "application/json"), ("content-length", str(len(body)))]
        head = h11.Request(method="POST", target=path, headers=[*fixed, *headers])
        self._body = b""
        self._out += (self._http.send(head) or b"") + (self._http.send(h11.Data(data=body)) or b"")
        self._out += self._http.send(h11.EndOfMessage()) or b""
        self._watch()

    def close(self) -> None:
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._socket:
            self._loop.forget(self._socket.fileno())
            close_socket(self._socket)
            self._socket = None
        if self._lookup:
            self._loop.forget(self._lookup.fd)
            self._lookup.close()
            self._lookup = None

    def _on_looked_up(self) -> None:
        lookup = self._lookup
        assert lookup is not None
        self._disconnect()
        if not lookup.addresses:
            self._fail(Lost(f"{self._endpoint}: {lookup.why}"))
            return
        self._addresses = self._in_turn(lookup.addresses)
        self._connect()

    def _in_turn(self, addresses: list[Address]) -> list[Address]:
        found = [(family, (place[0], port, *place[2:])) for port in self._ports for family, place in addresses]
        turns = self._first % max(len(found), 1)
        return found[turns:] + found[:turns]

    def _connect(self) -> None:
        """Connect to the next address. If that fails at once, the socket is ready at once, and the loop reports it."""
        while self._addresses and not self._socket:
            family, address = self._addresses.pop(0)
            self.port = address[1]
            try:
                self._socket = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # unsupported family; if no descriptors are left, the request times out
            self._socket.setblocking(False)  # noqa: FBT003
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in ((socket.TCP_NODELAY, 1), *KEEP_ALIVE):
                self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
            self._refused = self._socket.connect_ex(address)
            self._watch()

    def _watch(self) -> None:
        if self._socket:
            wants_write = self._connecting or bool(self._out)
            self._loop.watch(self._socket.fileno(), self._on_ready, READABLE | (WRITABLE if wants_write else 0))

    def _on_ready(self) -> None:
        end: Lost | Refusal | None = None
        try:
            if not self._connecting or self._finish_connecting():
                self._proceed()
        except BlockingIOError:
            self._watch()
        except h11.RemoteProtocolError as error:
            end = NotAStore(UNKNOWN, f"not HTTP: {error}")
        except (OSError, ValueError) as error:
            end = self._on_tls_error(error) if self._tls else self._lost(error)
        arrived, self._arrived = self._arrived, []
        for status, body in arrived:
            if not self._closed:
                self._on_message(status, body)
        if end and not self._closed:
            self._fail(end)

    def _lost(self, error: Exception) -> Lost:
        return Lost(f"{self._endpoint}: {str(getattr(error, 'strerror', None) or error).lower()}")

    def _on_tls_error(self, error: Exception) -> Lost | Refusal | None:
        """Wait if the connection is not ready: then there is no end."""
        import ssl

        if isinstance(error, ssl.SSLWantReadError):
            # Not WRITABLE: the socket has room to write, so the loop would spin until an answer arrives.
            assert self._socket is not None
            self._loop.watch(self._socket.fileno(), self._on_ready, READABLE)
            return None
        if isinstance(error, ssl.SSLWantWriteError):
            self._watch()
            return None
        if isinstance(error, ssl.SSLCertVerificationError):
            return BadServerCertificate(UNKNOWN, error.verify_message)
        if isinstance(error, ssl.SSLError):
            why = (error.reason or str(error)).replace("_", " ").lower()
            return Lost(f"{self._endpoint}: no TLS connection ({why})")
        return self._lost(error)

    def _fail(self, end: Lost | Refusal) -> None:
        self.close()
        self._on_lost(end)

    def _finish_connecting(self) -> bool:
        """Whether the connection is established; if it failed, try the next address."""
        assert self._socket is not None
        under_way = self._refused in (0, errno.EINPROGRESS)
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if under_way else self._refused
        if code and self._addresses:
            self._disconnect()
            self._connect()
            return False
        if code:
            raise OSError(code, os.strerror(code))
        self._connecting = False
        if self._tls:  # not earlier: when Python wraps a socket, it reads from it
            self._loop.forget(self._socket.fileno())
            self._socket = self._tls.wrap_socket(
                self._socket, server_hostname=self._host, do_handshake_on_connect=False
            )
            self._watch()
        return True

    def _proceed(self) -> None:
        assert self._socket is not None
        if self._handshaking:
            self._socket.do_handshake()  # type: ignore[attr-defined]
            self._handshaking = False
        while self._out:
            self._out = self._out[self._socket.send(self._out) :]
        self._watch()
        data = self._socket.recv(CHUNK)
        if not data:
            self._on_end()
            return
        if not self._has_received and not data.startswith(b"HTTP/"[: len(data)]):
            raise h11.RemoteProtocolError("unexpected bytes")  # h11 would wait for the end of the head
        self._has_received = True
        self._http.receive_data(data)
        self._read()

    def _on_end(self) -> None:
        try:
            self._http.receive_data(b"")
            self._read()  # the end of an answer without a length
        except h11.RemoteProtocolError:
            pass  # an incomplete answer is lost, not invalid
        if self._socket:
            when = "" if self._has_received else " before it answered"
            raise ConnectionResetError(errno.ECONNRESET, f"the store closed the connection{when}")

    def _read(self) -> None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._status = event.status_code
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
                if len(self._body) > LARGEST_ANSWER:
                    raise OSError(errno.EMSGSIZE, "the answer is too large")
                if self._streaming and self._status == 200:
                    *lines, self._body = self._body.split(b"\n")
                    self._arrived += [(200, line) for line in lines if line]
            elif isinstance(event, h11.EndOfMessage):
                self._end_message()
                return
            else:
                return

    def _end_message(self) -> None:
        if self._streaming and self._status == 200:
            self._arrived += [(200, self._body)] if self._body else []  # the last line may have no newline
            raise ConnectionResetError(errno.ECONNRESET, "the store ended the watch")
        self._arrived.append((self._status, self._body))
        if self._http.their_state is not h11.DONE:
            self._disconnect()
