"""What copiers of two nodes say to each other over TCP. Both prove that they know the job's token before either sends a
state, or believes what it reads.

Server: a nonce. Client: a nonce, a proof and a request. Server: a proof. Then the entry of a state and its bytes go to
one of them, with a checksum at the end, which the receiver confirms. A client that does not know the token gets nothing
that depends on it, and the key of the proofs is slow to derive: a stranger cannot try words as tokens later.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from zlib import crc32

from flota.values import NamedTuple
from flota.worker.snapshot_layout import LARGEST, Entry

NONCE, PROOF = 32, 32
LONGEST_REQUEST = 1024
PUT, GET = "put", "get"
CHUNK = 1 << 20
DONE = b"done"
SALT = b"flota copies of snapshots"
SCRYPT = {"n": 1 << 14, "r": 8, "p": 1}  # 16 MB, and less than 0.1 seconds
_LENGTH, _CHECKSUM = struct.Struct("<I"), struct.Struct("<I")


class CopyFailed(Exception):
    """The other side is not a copier of this job, is gone, or does not have the state."""


class CopyRequest(NamedTuple):
    """`do`: put the state that follows, or get it."""

    do: str
    role: str
    rank: int
    step: int


def derive_key(token: str) -> bytes:
    """The key of the proofs. Slow: call it once."""
    return hashlib.scrypt(token.encode(), salt=SALT, dklen=32, **SCRYPT)


def prove(key: bytes, side: bytes, *data: bytes) -> bytes:
    return hmac.digest(key, b"flota snapshot " + side + b"".join(data), "sha256")


def ask(connection: socket.socket, key: bytes, request: CopyRequest) -> None:
    """The client's part of the beginning."""
    nonce, packed = os.urandom(NONCE), json.dumps(request).encode()
    theirs = read_exactly(connection, NONCE)
    proof = prove(key, b"client", theirs, nonce, packed)
    connection.sendall(nonce + proof + _LENGTH.pack(len(packed)) + packed)
    try:
        proof = read_exactly(connection, PROOF)
    except CopyFailed:
        raise CopyFailed("the other node closed the connection; is its token the same?") from None
    if not hmac.compare_digest(proof, prove(key, b"server", nonce, theirs, packed)):
        raise CopyFailed("the other node does not have the job's token")


def answer(connection: socket.socket, key: bytes, deadline: float) -> CopyRequest:
    """The server's part of the beginning. A stranger gets 32 random bytes, and no time beyond the deadline."""
    nonce = os.urandom(NONCE)
    connection.sendall(nonce)
    theirs, proof = read_exactly(connection, NONCE, deadline), read_exactly(connection, PROOF, deadline)
    (length,) = _LENGTH.unpack(read_exactly(connection, _LENGTH.size, deadline))
    packed = read_exactly(connection, length, deadline) if length <= LONGEST_REQUEST else b""
    if not hmac.compare_digest(proof, prove(key, b"client", nonce, theirs, packed)):
        raise CopyFailed("the other node does not have the job's token")
    connection.sendall(prove(key, b"server", theirs, nonce, packed))
    try:
        request = CopyRequest(*json.loads(packed))
    except (ValueError, TypeError, KeyError):
        raise CopyFailed("an unknown request") from None
    numbers = all(type(number) is int and number >= 0 for number in (request.rank, request.step))
    if request.do not in (PUT, GET) or not isinstance(request.role, str) or not numbers:
        raise CopyFailed("an unknown request")
    return request


def send_state(connection: socket.socket, entry: Entry, chunks: Iterator[bytes]) -> None:
    """Send with `send`: `sendfile` would send what is in the pages later, when they have been overwritten."""
    connection.sendall(json.dumps(entry).encode().ljust(LONGEST_REQUEST))
    checksum = 0
    for chunk in chunks:
        checksum = crc32(chunk, checksum)
        connection.sendall(chunk)
    connection.sendall(_CHECKSUM.pack(checksum))
    if read_exactly(connection, len(DONE)) != DONE:
        raise CopyFailed("the other node did not confirm the state")


def receive_entry(connection: socket.socket, request: CopyRequest) -> Entry:
    try:
        entry = Entry(*json.loads(read_exactly(connection, LONGEST_REQUEST)))
        sound = all(type(number) is int and number >= 0 for number in entry)
    except (ValueError, TypeError):
        sound = False
    if not sound or entry.size > LARGEST or not entry.is_complete or entry.step != request.step:
        raise CopyFailed("not the entry of that state")
    return entry


def receive_state(connection: socket.socket, size: int, put: Callable[[int, bytes], None]) -> None:
    """Receive the bytes of a state. `put` gets each part, with its place."""
    checksum = at = 0
    while at < size:
        chunk = connection.recv(min(CHUNK, size - at))
        if not chunk:
            raise CopyFailed("the connection was closed")
        checksum = crc32(chunk, checksum)
        put(at, chunk)
        at += len(chunk)
    if _CHECKSUM.unpack(read_exactly(connection, _CHECKSUM.size))[0] != checksum:
        raise CopyFailed("the checksum is wrong")


def confirm(connection: socket.socket) -> None:
    connection.sendall(DONE)


def read_exactly(connection: socket.socket, size: int, deadline: float | None = None) -> bytes:
    data = b""
    while len(data) < size:
        if deadline is not None:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        more = connection.recv(size - len(data))
        if not more:
            raise CopyFailed("the connection was closed")
        data += more
    return data
