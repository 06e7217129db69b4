"""What two copiers say to each other, over a socket pair."""

from __future__ import annotations

import json
import socket
import time
from itertools import accumulate
from threading import Thread

import pytest

from flota.snapshots import copy_protocol as protocol
from flota.snapshots.copy_protocol import GET, PUT, CopyFailed, CopyRequest
from flota.worker.snapshot_layout import Entry

STATE = Entry(7, 8, 1 << 16, 1 << 20, 3_000_000, 100, 1, 2)._replace(capacity=1 << 22)
DATA = bytes(range(256)) * 12110
BYTES = DATA[: STATE.size]
KEY = protocol.derive_key("secret")


@pytest.fixture
def pair():
    pair = socket.socketpair()
    for one in pair:
        one.settimeout(5)
    yield pair
    for one in pair:
        one.close()


class Side(Thread):
    """The other side of a conversation. `result` waits for it."""

    def __init__(self, work, *arguments):
        super().__init__(daemon=True)
        self._work, self._arguments, self.value = work, arguments, None
        self.start()

    def run(self):
        try:
            self.value = self._work(*self._arguments)
        except Exception as error:
            self.value = error

    def result(self):
        self.join(10)
        return self.value


def soon():
    return time.monotonic() + 5


def test_both_sides_know_the_token(pair):
    request = CopyRequest(PUT, "trainer", 3, 70)
    server = Side(protocol.answer, pair[1], KEY, soon())

    protocol.ask(pair[0], KEY, request)

    assert server.result() == request


def test_a_server_without_the_token_is_refused(pair):
    pair[1].sendall(bytes(64))

    with pytest.raises(CopyFailed, match="does not have the job's token"):
        protocol.ask(pair[0], KEY, CopyRequest(GET, "trainer", 3, 70))


def serve(connection, key):
    with connection:
        return protocol.answer(connection, key, soon())


def test_a_client_with_another_token_is_told_so(pair):
    server = Side(serve, pair[1], protocol.derive_key("other"))

    with pytest.raises(CopyFailed, match="is its token the same"):
        protocol.ask(pair[0], KEY, CopyRequest(GET, "trainer", 3, 70))

    assert isinstance(server.result(), CopyFailed)


@pytest.mark.parametrize("client", [b"", bytes(32), bytes(64), bytes(64) + b"\x02\0\0\0[]", bytes(64) + b"\xff" * 4])
def test_a_client_without_the_token_gets_nothing_that_depends_on_it(pair, client):
    server = Side(serve, pair[1], KEY)

    pair[0].sendall(client)
    pair[0].shutdown(socket.SHUT_WR)

    assert isinstance(server.result(), CopyFailed)
    assert len(b"".join(iter(lambda: pair[0].recv(1000), b""))) == 32  # the nonce


def test_a_client_that_is_slow_is_given_up(pair):
    with pytest.raises(TimeoutError):
        protocol.answer(pair[1], KEY, time.monotonic())


@pytest.mark.parametrize(
    "request_",
    [
        ["drop", "trainer", 1, 1],
        [GET, 5, 1, 1],
        [GET, "trainer", -1, 1],
        [GET, "trainer", True, 1],
        [GET],
        7,
        {"do": GET},
    ],
)
def test_an_unknown_request_is_refused(pair, request_):
    server = Side(protocol.answer, pair[1], KEY, soon())

    protocol.ask(pair[0], KEY, request_)

    assert isinstance(server.result(), CopyFailed)


def receive(connection):
    entry = protocol.receive_entry(connection, CopyRequest(PUT, "trainer", 1, 7))
    parts = {}
    protocol.receive_state(connection, entry.size, parts.__setitem__)
    protocol.confirm(connection)
    assert list(parts) == [0, *accumulate(map(len, parts.values()))][:-1]
    return entry, b"".join(parts.values())


def test_a_state_arrives_as_it_was(pair):
    server = Side(receive, pair[1])

    protocol.send_state(pair[0], STATE, iter([BYTES[:1_000_000], BYTES[1_000_000:]]))

    assert server.result() == (STATE, BYTES)


def test_a_state_with_a_wrong_checksum_is_not_confirmed(pair):
    server = Side(receive, pair[1])
    pair[0].sendall(json.dumps(STATE).encode().ljust(protocol.LONGEST_REQUEST) + BYTES + bytes(4))

    assert "checksum" in str(server.result())


def test_a_transfer_that_stops_is_one_error(pair):
    server = Side(receive, pair[1])
    pair[0].sendall(json.dumps(STATE).encode().ljust(protocol.LONGEST_REQUEST) + BYTES[:5000])
    pair[0].close()

    assert isinstance(server.result(), CopyFailed)


@pytest.mark.parametrize(
    "entry",
    [STATE._replace(step=8, complete=9), STATE._replace(complete=0), STATE._replace(tree_at=1 << 60), ["x"], [1, 2], 5],
)
def test_an_entry_that_cannot_be_is_refused(pair, entry):
    server = Side(receive, pair[1])
    pair[0].sendall(json.dumps(entry).encode().ljust(protocol.LONGEST_REQUEST))

    assert isinstance(server.result(), CopyFailed)
