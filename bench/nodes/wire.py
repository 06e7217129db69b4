"""One connection of a load process to the master: sends requests, receives whole bodies or whole lines of a stream."""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Callable
from typing import Protocol

from flota.store.etcd_json import StoreRequest, encode

LARGEST_READ = 1 << 20


class Crowd(Protocol):
    """The owner of the connections."""

    master: tuple[str, int]
    epoll: select.epoll
    wires: dict[int, Wire]


class Wire:
    def __init__(self, crowd: Crowd, on_body: Callable[[bytes], None], *, streams: bool) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)  # noqa: FBT003
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(crowd.master)
        self.crowd = crowd
        self.on_body = on_body
        self.streams = streams
        self.in_head = True
        self.parts: list[bytes] = []
        self.have = 0
        self.needed = 0  # bytes that must have arrived before the next attempt to parse
        self.out = b""
        self.awaited = 0

    def send(self, path: str, request: StoreRequest, header: str = "") -> None:
        body = encode(request)
        host = f"{self.crowd.master[0]}:{self.crowd.master[1]}"
        head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{header}"
        self.out += f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        self._flush()

    def close(self) -> None:
        self.crowd.epoll.unregister(self.socket.fileno())
        self.socket.close()

    def on_ready(self) -> None:
        if self.socket.fileno() < 0:
            return  # closed in this turn
        if self.out:
            self._flush()
        try:
            data = self.socket.recv(LARGEST_READ)
        except BlockingIOError:
            return
        if not data:
            sys.exit("many_nodes: the master has closed a connection")
        self.parts.append(data)
        self.have += len(data)
        while self.have >= self.needed and self._take():
            pass

    def _flush(self) -> None:
        try:
            self.out = self.out[self.socket.send(self.out) :]
        except BlockingIOError:
            pass
        events = select.EPOLLIN | (select.EPOLLOUT if self.out else 0)
        if events != self.awaited:
            change = self.crowd.epoll.modify if self.awaited else self.crowd.epoll.register
            self.awaited = events
            self.crowd.wires[self.socket.fileno()] = self
            change(self.socket.fileno(), events)

    def _take(self) -> bool:
        """Parse the next part. Returns whether there may be more."""
        data = b"".join(self.parts)
        end = data.find(b"\r\n\r\n" if self.in_head else b"\r\n")
        body = b""
        if end < 0:
            self.needed = self.have + 1
        elif self.streams and self.in_head:
            data, self.in_head, self.needed = data[end + 4 :], False, 0
        else:
            length, begin = self._length(data[:end]), end + (4 if self.in_head else 2)
            self.needed = begin + length + (2 if self.streams else 0)
            if len(data) >= self.needed:
                body, data = data[begin : begin + length], data[self.needed :]
                self.needed = 0
        self.parts, self.have = [data], len(data)
        if body:
            self.on_body(body)
        return bool(data) and self.have >= self.needed

    def _length(self, head: bytes) -> int:
        if self.streams:
            return int(head, 16)
        status, _, fields = head.partition(b"\r\n")
        if b" 200" not in status:
            sys.exit(f"many_nodes: the master answers {status.decode()}")
        return int(fields.partition(b"content-length:")[2].partition(b"\r\n")[0])
