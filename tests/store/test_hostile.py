"""The embedded master against clients that mean no good, or know no better. After each, an honest one is served at once."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
import time

import pytest

from flota.store import server, server_connection
from flota.store.etcd_json import Put, StoreAnswer, WatchCreate
from tests.launching import wait_until
from tests.store.servers import Client, Driver, Embedded

MANY = 2000


@pytest.fixture
def master():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * MANY + 500), hard))
    server = Embedded()
    yield server
    server.close()


def dial(master, data: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", master.port), timeout=30)
    client.sendall(data)
    return client


def assert_served(master, within: float = 30.0) -> None:
    began = time.monotonic()
    with Client(master.port) as honest:
        assert honest.ask("/v3/kv/put", {"key": "aG9uZXN0", "value": "MQ=="})[0] == 200
    assert time.monotonic() - began < within


def answer_of(client: socket.socket) -> bytes:
    """All that comes until the master closes the connection."""
    received = b""
    try:
        while data := client.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    client.close()
    return received


def test_idle_connections(master):
    idle = [dial(master) for _ in range(MANY)]

    assert_served(master)
    for client in idle:
        client.close()


def test_half_requests_are_given_up_in_time(master, monkeypatch):
    monkeypatch.setattr(server_connection, "REQUEST_TIME", 0.3)
    half = [dial(master, b"POST /v3/kv/put HTTP/1.1\r\nhost: x\r\ncontent-len") for _ in range(50)]

    assert_served(master)
    answers = [answer_of(client) for client in half]
    assert all(b" 408 " in answer or answer == b"" for answer in answers)


def test_a_body_that_trickles_is_given_up_in_time(master, monkeypatch):
    monkeypatch.setattr(server_connection, "REQUEST_TIME", 0.5)
    client = dial(master, b"POST /v3/kv/put HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n")

    def is_given_up() -> bool:
        try:
            client.sendall(b"x")
        except OSError:
            return True
        return False

    wait_until(is_given_up, "the end of the connection")
    client.close()
    assert_served(master)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /v3/kv/put HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"x" * 100_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"POST /v3/kv/put HTTP/1.1\r\ncontent-length: 1\r\n\r\n{", 400),
    ],
    ids=["long head", "tls", "no http", "no host"],
)
def test_garbage_is_answered_and_closed(master, data, status):
    assert f" {status} ".encode() in answer_of(dial(master, data)).split(b"\r\n")[0]
    assert_served(master)


def test_an_oversized_body_is_refused(master):
    client = dial(master, b"POST /v3/kv/put HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n")
    received = b""
    try:
        for _ in range(1000):
            client.sendall(b"x" * 65536)
    except OSError:
        pass
    try:
        received = client.recv(65536)
    except OSError:
        pass
    client.close()

    assert received == b"" or b" 413 " in received
    assert_served(master)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v3/kv/put", b"{", 400),
        ("/v3/kv/put", b"[1]", 400),
        ("/v3/kv/put", b'{"key": 5}', 400),
        ("/v3/kv/put", b'{"key": "***"}', 400),
        ("/v3/kv/put", b"{}", 400),
        ("/v3/kv/put", b'{"key": "YQ==", "lease": "99999999999999999999999"}', 400),
        ("/v3/kv/put", json.dumps({"key": "YQ==", "value": "A" * 1_500_000}).encode(), 400),
        ("/v3/kv/range", b'{"key": "YQ==", "sort_target": "NONSENSE"}', 400),
        ("/v3/kv/range", b'{"key": "AA==", "sort_order": "\xff"}', 400),
        ("/v3/kv/range", b'{"\xff": "AA=="}', 400),
        ("/v3/kv/put", b'{"key": "YQ==", "lease": %s}' % (b"9" * 5000), 400),
        ("/v3/kv/txn", json.dumps({"success": [{}] * 500}).encode(), 400),
        ("/v3/lease/grant", b'{"TTL": -5}', 400),
        ("/v3/watch", b"{}", 400),
        ("/v3/auth/authenticate", b'{"name": "root", "password": "x"}', 501),
        ("/v3/kv/range", b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        ("/v3/nothing", b"{}", 501),
        ("/../../etc/passwd", b"{}", 501),
    ],
)
def test_nonsense_is_an_error_and_no_more(master, path, body, status):
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    answer = answer_of(dial(master, head + body))

    assert answer.split(b" ")[1] == str(status).encode(), answer[:300]
    json.loads(answer.partition(b"\r\n\r\n")[2])
    assert_served(master)


@pytest.mark.parametrize(
    "head",
    [
        "POST /v3/kv/range HTTP/1.0",
        "HEAD /version HTTP/1.1\r\nhost: x",
        "GET /version HTTP/1.1\r\nhost: x\r\nconnection: close",
    ],
    ids=["1.0", "HEAD", "close"],
)
def test_an_answer_that_must_be_the_last_is_followed_by_the_end(master, head):
    answer = answer_of(dial(master, head.encode() + b"\r\n\r\n"))

    assert b"\r\nconnection: close\r\n" in answer
    assert_served(master)


def test_a_flood_of_connections(master):
    for _ in range(MANY):
        dial(master, b"POST /v3/kv/range HTTP/1.1\r\nhost: x\r\n\r\n").close()

    assert_served(master)


def test_of_pipelined_requests_the_first_is_answered_and_the_connection_closed(master):
    one = b"POST /v3/kv/range HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n" + b'{"key":"YQ=="}'

    answer = answer_of(dial(master, one * 2))

    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"\r\nconnection: close\r\n" in answer
    assert_served(master)


def test_a_client_that_does_not_take_its_answers_gets_no_more_of_them(master):
    with Client(master.port) as writer:
        assert writer.ask("/v3/kv/put", {"key": "YmlnCg==", "value": "A" * 1_000_000})[0] == 200
    ask = b'{"key":"YmlnCg=="}'
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", master.port))

    unsent = 0
    for _ in range(60):
        try:
            deaf.sendall(b"POST /v3/kv/range HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(ask) + ask)
        except OSError:
            break  # two requests arrived at once, so the connection was closed
        assert_served(master)
        unsent = max(unsent, *(sum(map(len, one.unsent)) for one in list(master.master.connections.values())), 0)

    assert unsent < 1_100_000  # one answer
    deaf.close()


def test_a_body_in_tiny_parts_is_refused(master):
    head = b"POST /v3/kv/range HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"

    answer = answer_of(dial(master, head + b"1\r\n \r\n" * 1000))

    assert answer == b"" or b" 413 " in answer.split(b"\r\n")[0]
    assert_served(master)


def test_thousands_of_watchers_all_receive_events(master):
    ask = b'{"create_request":{"key":"cm9zdGVy"}}'
    head = b"POST /v3/watch HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(ask)
    watchers = [dial(master, head + ask) for _ in range(MANY)]
    for watcher in watchers:
        assert b'"created":true' in watcher.recv(4096)

    with Client(master.port) as coordinator:
        coordinator.ask("/v3/kv/put", {"key": "cm9zdGVy", "value": "MTIz"})

    for watcher in watchers:
        assert b"MTIz" in watcher.recv(4096)
        watcher.close()
    assert_served(master)


def test_a_watcher_that_never_reads_is_given_up(master, monkeypatch):
    monkeypatch.setattr(server_connection, "LARGEST_BACKLOG", 2 << 20)
    ask = b'{"create_request":{"key":"YQ=="}}'
    deaf = dial(master, b"POST /v3/watch HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(ask) + ask)
    value = "A" * 800_000

    with Client(master.port) as writer:
        for _ in range(40):
            assert writer.ask("/v3/kv/put", {"key": "YQ==", "value": value})[0] == 200

    give_up = time.monotonic() + 30
    while any(bool(one.watch) for one in list(master.master.connections.values())):
        assert time.monotonic() < give_up, "the deaf watcher is still kept"
        time.sleep(0.01)
    deaf.close()


def test_memory_stays_bounded_under_connections_that_come_and_go(master):
    before = resident()
    for _ in range(5):
        clients = [
            dial(master, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n" + b"x" * 50) for _ in range(500)
        ]
        for client in clients:
            client.close()
    assert_served(master)

    assert resident() - before < 60 << 20


# Strangers: clients without the job's token.

TOKEN = "right"
REQUEST = b"POST /v3/kv/range HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
FLOODS = {
    "pipelined requests": REQUEST * 1000,
    "tiny parts": b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000,
    "many headers": b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 3900 + b"\r\n",
    "byte by byte": b"P",
}


@pytest.fixture
def guarded():
    server = Embedded(token=TOKEN)
    yield server
    server.close()


@pytest.fixture
def peer(guarded):
    driver = Driver(guarded.port, token=TOKEN)
    assert isinstance(driver.ask(Put(key=b"a")), StoreAnswer)
    yield driver
    driver.client.close()


def is_dropped(client: socket.socket) -> bool:
    client.settimeout(0)
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


@pytest.mark.parametrize("requests", [1, 1000])
def test_a_stranger_gets_one_refusal_and_the_end(guarded, requests):
    answer = answer_of(dial(guarded, REQUEST * requests))

    assert answer.startswith(b"HTTP/1.1 401 ") or (requests > 1 and not answer)  # a reset may overtake the answer
    assert answer.count(b"HTTP/1.1 ") == answer.count(b"\r\nconnection: close\r\n") <= 1


@pytest.mark.parametrize("flood", FLOODS)
def test_a_peer_is_served_in_time_while_strangers_flood_the_store(guarded, peer, flood):
    """Without a limit, a turn of the loop takes seconds: the peer loses its requests, and its node the job."""
    flooders = [Flooder(guarded.port, FLOODS[flood]) for _ in range(30)]

    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert isinstance(peer.ask(Put(key=b"a")), StoreAnswer)

    for flooder in flooders:
        flooder.stop()


class Flooder(threading.Thread):
    """Sends the same bytes again and again, and connects again if it is dropped."""

    def __init__(self, port: int, data: bytes) -> None:
        super().__init__(daemon=True)
        self.port, self.data = port, data
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                    while not self.stopped.is_set():
                        client.send(self.data)
            except OSError:
                pass

    def stop(self) -> None:
        self.stopped.set()
        self.join()


def test_the_oldest_strangers_are_dropped_first_and_peers_never(guarded, peer, monkeypatch):
    monkeypatch.setattr(server.Master, "strangers_memory", 50 * server_connection.PLAIN_MEMORY)
    old = [dial(guarded) for _ in range(100)]

    new = [dial(guarded) for _ in range(50)]

    assert isinstance(peer.ask(Put(key=b"a")), StoreAnswer)
    wait_until(lambda: all(map(is_dropped, old)), "the old ones to be dropped")
    assert not any(map(is_dropped, new))
    assert len(guarded.master.connections) == 51
    for client in old + new:
        client.close()


def test_half_requests_of_strangers_share_a_budget_of_memory(guarded, monkeypatch):
    monkeypatch.setattr(server.Master, "strangers_memory", 1 << 20)

    clients = [dial(guarded, b"POST / HTTP/1.1\r\nx: " + b"x" * 15_000) for _ in range(200)]

    wait_until(lambda: is_dropped(clients[100]), "the first ones to be dropped")
    wait_until(lambda: guarded.master._strangers_memory <= 1 << 20, "the budget")
    assert 0 < sum(one.memory for one in list(guarded.master.connections.values())) <= 1 << 20
    for client in clients:
        client.close()
    wait_until(lambda: not guarded.master.connections, "all to be gone")
    assert guarded.master._strangers_memory == 0


def test_a_stranger_whose_request_has_arrived_is_served_before_it_is_dropped(guarded, monkeypatch):
    monkeypatch.setattr(server.Master, "strangers_memory", 20 * server_connection.PLAIN_MEMORY)
    ask = REQUEST.replace(b"host: x", b"host: x\r\nauthorization: right")
    guarded.pause()
    clients = [dial(guarded, ask) for _ in range(100)]
    guarded.resume()

    answers = [client.recv(15) for client in clients]

    assert answers == [b"HTTP/1.1 400 \r\n"] * 100  # a range without a key
    for client in clients:
        client.close()


def test_a_full_store_drops_strangers_before_idle_peers_and_reports_if_there_are_none():
    reported = []
    full = Embedded(token=TOKEN, most_connections=20, on_full=reported.append)
    peers = [Driver(full.port, token=TOKEN) for _ in range(10)]
    for one in peers:
        one.client.watch(WatchCreate(key=b"a"), lambda _: None)
        assert isinstance(one.ask(Put(key=b"a")), StoreAnswer)
    assert not reported

    late = dial(full)

    wait_until(lambda: len(full.master.connections) == 20 and full.master._strangers, "an idle peer to make room")
    late.close()
    watchers = []
    for _ in range(20):
        watchers.append(Driver(full.port, token=TOKEN))
        watchers[-1].client.watch(WatchCreate(key=b"a"), lambda _: None)
        watchers[-1].loop.turn(0.1)
    wait_until(lambda: reported, "the report")
    assert reported == [20]
    for one in peers + watchers:
        one.client.close()
    full.close()


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
