"""Forwards frames between two ports with delay, limited rate or loss, like a long or bad cable.

A separate program: `relay.py PORT PORT DELAY JITTER LOSS RATE DROPPED`, in seconds, seconds, 0 to 1, bytes per second
(0: no limit), and a TCP port whose packets are dropped (0: none). The kernel's netem is not available on every kernel.
"""

from __future__ import annotations

import os
import random
import select
import socket
import sys
import time
from collections import deque

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, SO_RCVBUFFORCE = 263, 15, 23, 33
EVERY_PROTOCOL, TCP = 3, 6
OFFLOAD_HEADER = 10  # bytes before each frame: which checksum the kernel has left to the network card
BACKLOG = 0.25  # seconds of queued frames; more are dropped, as in a switch
TURN = 64  # frames read at once, so that frames that are due are not delayed


class Direction:
    """Frames from one port to the other, in order: jitter does not reorder."""

    def __init__(self, source: socket.socket, target: socket.socket, quality: list[float]) -> None:
        self.source, self.target = source, target
        self.delay, self.jitter, self.loss, self.rate, self.dropped = quality
        self.queue: deque[tuple[float, bytes]] = deque()
        self.line_free = 0.0
        self.last = 0.0

    def take(self) -> None:
        for _ in range(TURN):
            try:
                frame = self.source.recv(70000)
            except OSError:  # no frame, or the cable is unplugged
                return
            if self.dropped and int(self.dropped) in tcp_ports(frame[OFFLOAD_HEADER:]):
                continue
            due = self._due(len(frame) - OFFLOAD_HEADER, time.monotonic())
            if due is not None:
                self.queue.append((due, frame))

    def give(self) -> None:
        while self.queue and self.queue[0][0] <= time.monotonic():
            try:
                self.target.send(self.queue.popleft()[1])
            except OSError:
                pass  # lost: the other port is down or full

    def _due(self, size: int, now: float) -> float | None:
        """When a frame is delivered; None if it is dropped."""
        if random.random() < self.loss:
            return None
        sent = now
        if self.rate:
            if self.line_free - now > BACKLOG:
                return None
            sent = self.line_free = max(self.line_free, now) + size / self.rate
        self.last = max(self.last, sent + self.delay + random.uniform(-self.jitter, self.jitter))
        return self.last


def tcp_ports(frame: bytes) -> tuple[int, ...]:
    """The source and destination ports of a TCP packet; empty for any other frame."""
    kind, rest = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and rest[9] == TCP:
        at = 4 * (rest[0] & 15)
    elif kind == b"\x86\xdd" and rest[6] == TCP:
        at = 40
    else:
        return ()
    return int.from_bytes(rest[at : at + 2], "big"), int.from_bytes(rest[at + 2 : at + 4], "big")


def open_port(name: str) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    port.bind((name, EVERY_PROTOCOL))
    port.settimeout(0)
    return port


def main(names: list[str], quality: list[float]) -> None:
    one, other = map(open_port, names)
    directions = [Direction(one, other, quality), Direction(other, one, quality)]
    os.write(1, b"!")
    while True:
        due = [direction.queue[0][0] for direction in directions if direction.queue]
        wait = max(0.0, min(due) - time.monotonic()) if due else None
        ready = select.select([one, other], [], [], wait)[0]
        for direction in directions:
            if direction.source in ready:
                direction.take()
            direction.give()


if __name__ == "__main__":
    main(sys.argv[1:3], [float(word) for word in sys.argv[3:]])
