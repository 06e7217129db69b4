"""What the embedded master does for thousands of nodes, and what it does not do each time."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flota.host.loop import Loop
from flota.store import server_watches as module
from flota.store.etcd_json import LeaseGrant, LeaseKeepAlive, LeaseRevoke, Put, WatchCreate
from flota.store.kv import KeyValueStore
from flota.store.server import Master
from flota.store.server_watches import ServerWatches
from tests.store.servers import Client, Embedded

MANY = 8192


def quickest(act, times: int = 200) -> float:
    """Seconds that it takes when nothing else gets in its way."""
    best = 1.0
    for _ in range(times):
        began = time.perf_counter()
        act()
        best = min(best, time.perf_counter() - began)
    return best


def test_the_next_end_of_thousands_of_leases_is_known_without_looking_at_all():
    store = KeyValueStore(int)
    for number in range(1, MANY + 1):
        store.answer(LeaseGrant(ttl=10, id=number), number / MANY)
    assert store.deadline == 10 + 1 / MANY

    assert quickest(lambda: store.deadline) < 20e-6  # a look at all takes some 500
    assert quickest(lambda: store.expire(5.0)) < 20e-6


def test_a_renewed_lease_outlives_the_others():
    store = KeyValueStore(int)
    for number in (1, 2, 3):
        store.answer(LeaseGrant(ttl=10, id=number), 0)
    store.answer(LeaseKeepAlive(id=2), 5)
    store.answer(LeaseRevoke(id=3), 0)

    store.expire(10)

    assert store.deadline == 15
    assert [store.answer(LeaseKeepAlive(id=number), 11).ttl for number in (1, 2, 3)] == ["0", "10", "0"]


def test_a_lease_that_is_granted_again_has_its_new_end():
    store = KeyValueStore(int)
    store.answer(LeaseGrant(ttl=100, id=1), 0)
    store.answer(LeaseRevoke(id=1), 0)
    store.answer(LeaseGrant(ttl=5, id=1), 0)

    assert store.deadline == 5


def put(store: KeyValueStore, watches: ServerWatches, key: bytes, value: bytes = b"") -> int:
    store.answer(Put(key=key, value=value), 0)
    list(watches.publish(store.take_events()))
    return store.revision


def test_a_watch_from_a_recent_revision_does_not_look_at_the_whole_history():
    store, watches = KeyValueStore(int), ServerWatches()
    for _ in range(30_000):
        put(store, watches, b"k")
    recent = WatchCreate(key=b"k", start_revision=store.revision - 1)

    assert [event.kv.mod_revision for event in watches.add("me", recent)] == ["30000", "30001"]
    assert quickest(lambda: watches.add("me", recent)) < 100e-6  # a look at all takes some 10,000


def test_events_of_thousands_of_watchers_of_the_same_keys_are_made_once():
    store, watches = KeyValueStore(int), ServerWatches()
    for number in range(MANY):
        watches.add(number, WatchCreate(key=b"node/", range_end=b"node0"))
    watches.add("other", WatchCreate(key=b"other"))
    store.answer(Put(key=b"node/7"), 0)
    events = store.take_events()

    ((chosen, watchers),) = watches.publish(events)

    assert (chosen, len(watchers)) == (events, MANY)
    assert quickest(lambda: list(watches.publish(events))) < 100e-6


def test_watchers_of_a_key_and_of_a_range_that_begins_there_do_not_mix():
    store, watches = KeyValueStore(int), ServerWatches()
    one, many = WatchCreate(key=b"a"), WatchCreate(key=b"a", range_end=b"b")
    watches.add("one", one)
    watches.add("many", many)

    watches.remove("many", many)
    store.answer(Put(key=b"a"), 0)

    assert [watchers for _, watchers in watches.publish(store.take_events())] == [{"one"}]


@pytest.mark.parametrize("size", [0, 1000])
def test_the_past_is_kept_within_limits(monkeypatch, size):
    monkeypatch.setattr(module, "LARGEST_HISTORY", 100 * (module.EVENT_SIZE + size))
    store, watches = KeyValueStore(int), ServerWatches()
    for _ in range(1000):
        put(store, watches, b"k", b"x" * size)

    assert 80 <= len(watches._history) <= 100
    assert int(watches._history[0].kv.mod_revision) == watches.oldest
    assert len(watches.add("me", WatchCreate(key=b"k", start_revision=watches.oldest))) == len(watches._history)


class CountingLoop(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def watch(self, *args, **options) -> None:
        self.calls += 1
        super().watch(*args, **options)


def test_the_loop_is_called_once_per_connection_and_not_per_request():
    loop = CountingLoop()
    server = Embedded(loop=loop)
    with Client(server.port) as client:
        for _ in range(100):
            assert client.ask("/v3/kv/range", {"key": "YQ=="})[0] == 200
    server.close()

    assert loop.calls == 2  # the listener and the connection


def test_a_deadline_costs_the_same_with_thousands_of_connections():
    loop = CountingLoop()
    master = Master("127.0.0.1", 0, loop)
    with Client(master.port) as client:
        client.http.connect()
        loop.turn(1)
        (one,) = master.connections.values()
        master.connections.update(dict.fromkeys(range(100_000, 100_000 + MANY), one))

        assert quickest(lambda: master.deadline) < 20e-6

        for fd in range(100_000, 100_000 + MANY):
            del master.connections[fd]
    master.close()


SERVE = """
import time
from flota.host.loop import Loop
from flota.store.server import Master
loop = Loop()
master = Master("127.0.0.1", 0, loop)
print(master.port, flush=True)
while True:
    loop.turn(None if master.deadline is None else max(0.0, master.deadline - time.monotonic()))
    master.on_time(time.monotonic())
"""


class Served:
    """The master in a process of its own, so that its memory and its time can be measured apart from the clients'."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())
        self.clients: list[socket.socket] = []

    def dial(self, buffer: int = 0) -> socket.socket:
        client = socket.socket()
        client.settimeout(20)
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.connect(("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    def memory(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def seconds(self) -> float:
        """Of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def served():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 5000), hard))
    server = Served()
    yield server
    server.close()


def ask(client: socket.socket, path: str, body: dict, until: bytes = b"\r\n\r\n{") -> bytes:
    text = json.dumps(body).encode()
    client.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text)
    received = b""
    while until not in received:
        data = client.recv(65536)
        assert data, received
        received += data
    return received


def test_a_node_costs_the_master_a_few_kilobytes(served):
    warm = served.dial()
    ask(warm, "/v3/kv/put", {"key": "YQ=="})
    before = served.memory()

    for _ in range(1000):  # nodes, each with a question and a watch
        ask(served.dial(), "/v3/kv/range", {"key": "YQ=="})
        ask(served.dial(), "/v3/watch", {"create_request": {"key": "YQ=="}}, until=b"created")

    assert (served.memory() - before) / 2000 < 3 << 10  # 4,096 nodes: some 30 MiB and the process itself


def test_what_watchers_have_not_taken_is_kept_once_for_all(served):
    watchers = [served.dial(buffer=4096) for _ in range(40)]
    for watcher in watchers:
        ask(watcher, "/v3/watch", {"create_request": {"key": "YQ=="}}, until=b"created")
    before = served.memory()

    writer = served.dial()
    for _ in range(8):
        ask(writer, "/v3/kv/put", {"key": "YQ==", "value": "A" * 1_000_000})

    assert served.memory() - before < 40 << 20  # 40 times 5 MB otherwise, beside what the kernel takes


def test_a_master_without_descriptors_gives_up_idle_connections_and_does_not_spin(served):
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (60, 60))
    for _ in range(200):
        served.dial()

    ask(served.dial(), "/v3/kv/range", {"key": "YQ=="})


def test_a_master_full_of_watchers_rests_until_one_leaves(served):
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (60, 60))
    answered = True
    while answered:
        late = served.dial()
        late.settimeout(1.0)
        before = served.seconds()
        try:
            ask(late, "/v3/watch", {"create_request": {"key": "YQ=="}}, until=b"created")
        except TimeoutError:
            answered = False
    assert served.seconds() - before < 0.5  # of the second that the last one waited

    served.clients[0].close()

    late.settimeout(20)
    assert late.recv(4096)
