"""Members that are paused, killed, cut off, or not a store at all: what it costs, and what is reported."""

from __future__ import annotations

import signal
import socket
import threading
import time

import pytest

from flota.job.nodes import Place
from flota.store import server_watches
from flota.store.client import Lost
from flota.store.etcd_json import (
    TEMPORARY,
    UNKNOWN,
    LeaseGrant,
    NotAStore,
    Put,
    Range,
    Refusal,
    Unauthenticated,
    WatchAnswer,
    WatchCreate,
)
from tests.store.servers import Cluster, Driver, Embedded, Etcd


class Service:
    """Answers every request with the same bytes, after a while."""

    def __init__(self, answer: bytes, seconds: float = 0.0, *, keep: bool = False) -> None:
        self._answer = answer
        self._seconds = seconds
        self._keep = keep
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
        except OSError:
            pass

    def _serve(self, client: socket.socket) -> None:
        try:
            while client.recv(65536):
                time.sleep(self._seconds)
                client.sendall(self._answer)
                if not self._keep:
                    client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._clients:
            client.close()


def http(status: int, body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d x\r\n%scontent-length: %d\r\n\r\n%s" % (status, more, len(body), body)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


def listen(driver: Driver, received: list, **more) -> None:
    driver.client.watch(WatchCreate(key=b"k"), received.append, **more)
    driver.until(lambda: received)
    assert received[0].created


class Listener:
    """Listens as a node does: watches again, from where it was, whenever a watch is lost."""

    def __init__(self, driver: Driver) -> None:
        self.client = driver.client
        self.values: list[bytes] = []
        self.lost: list[Lost] = []
        self.created = 0
        self._next = 0
        self._watch()

    def _watch(self) -> None:
        self.client.watch(WatchCreate(key=b"k", start_revision=self._next), self._on_answer)

    def _on_answer(self, answer: WatchAnswer | Refusal | Lost) -> None:
        if isinstance(answer, Lost):
            self.lost.append(answer)
            self._watch()
            return
        assert isinstance(answer, WatchAnswer), answer
        self.created += answer.created
        self._next = int(answer.header.revision) + 1
        self.values += [event.kv.value for event in answer.events]


def put(driver: Driver, value: bytes, seconds: float = 60) -> None:
    """Until a member says that it is done."""
    give_up = time.monotonic() + seconds
    while isinstance(driver.ask(Put(key=b"k", value=value)), (Lost, Refusal)):
        assert time.monotonic() < give_up


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_paused_member_costs_one_time_limit_and_its_watches(cluster, leads):
    leader = cluster.leader()
    members = sorted(cluster.members, key=lambda member: (member is leader) != leads)
    driver = Driver(*(member.port for member in members), answer_time=3.0)
    listener = Listener(driver)
    driver.until(lambda: listener.created)
    put(driver, b"1")
    driver.until(lambda: listener.values == [b"1"])

    members[0].pause()
    lost = driver.ask(Put(key=b"k", value=b"2"))
    put(driver, b"3")
    driver.until(lambda: listener.lost)

    assert lost == listener.lost[0] == Lost(f"127.0.0.1:{members[0].port}: no answer in time")
    driver.until(lambda: listener.values[-1:] == [b"3"])
    members[0].process.send_signal(signal.SIGCONT)
    driver.client.close()


def test_a_killed_leader_is_survived(cluster):
    leader = cluster.leader()
    members = sorted(cluster.members, key=lambda member: member is not leader)
    driver = Driver(*(member.port for member in members))
    listener = Listener(driver)
    driver.until(lambda: listener.created)

    leader.process.kill()
    leader.process.wait()
    driver.until(lambda: listener.lost)
    put(driver, b"new")

    driver.until(lambda: listener.values[-1:] == [b"new"])
    driver.client.close()


def test_a_watch_that_is_never_begun_is_lost_in_time(master):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        driver = Driver(silent.getsockname()[1], master.port, answer_time=0.3)
        received = []
        driver.client.watch(WatchCreate(key=b"k"), received.append)
        assert driver.client.deadline is not None

        driver.until(lambda: received)
        assert isinstance(received[0], Lost)

        received.clear()
        listen(driver, received)  # at the next member
        assert driver.client.deadline is None
        driver.client.close()


def test_a_member_without_a_leader_is_left_with_its_watches(master):
    cut_off = Service(http(503, b'{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}'))
    driver = Driver(master.port, answer_time=1.0)
    received = []
    listen(driver, received)
    driver.client.members = (Place("127.0.0.1", cut_off.port), Place("127.0.0.1", master.port))

    refusal = driver.ask(Put(key=b"k"))

    assert refusal.code == 14 and refusal.code in TEMPORARY
    assert received[-1] == Lost(f"127.0.0.1:{cut_off.port}: etcdserver: no leader")
    assert not isinstance(driver.ask(Put(key=b"k")), (Refusal, Lost))
    driver.client.close()
    cut_off.close()


def test_every_question_has_its_own_time():
    slow = Service(http(200, b'{"header":{}}'), seconds=0.1, keep=True)
    driver = Driver(slow.port, answer_time=0.5)
    answers = []
    for _ in range(10):
        driver.client.ask(Range(key=b"k"), answers.append, time.monotonic())

    driver.until(lambda: len(answers) == 10)

    assert not [answer for answer in answers if isinstance(answer, (Lost, Refusal))]
    driver.client.close()
    slow.close()


def test_a_node_whose_master_was_silent_for_a_while_is_not_taken_for_dead(master):
    node, observer = Driver(master.port, answer_time=0.3), Driver(master.port)
    lease = int(node.ask(LeaseGrant(ttl=60)).id)
    node.ask(Put(key=b"node", lease=lease))
    received = []
    listen(node, received, lease=lease)

    master.pause()
    assert isinstance(node.ask(Range(key=b"node")), Lost)
    assert isinstance(received[-1], Lost)
    received.clear()
    node.client.watch(WatchCreate(key=b"k"), received.append, lease=lease)
    master.resume()
    node.until(lambda: received)

    assert received[0].created
    give_up = time.monotonic() + 30
    while sum(bool(one.watch) for one in list(master.master.connections.values())) != 1:
        assert time.monotonic() < give_up, "the old connection is still there"
        time.sleep(0.01)
    assert len(observer.ask(Range(key=b"node")).kvs) == 1
    node.client.close()
    observer.until(lambda: observer.ask(Range(key=b"node")).kvs == [])
    observer.client.close()


OTHER_PROGRAMS = {
    "text": http(200, b"hello"),
    "a page": http(200, b"<html>It works!</html>", b"content-type: text/html\r\n"),
    "other json": http(200, b'{"status":"ok"}'),
    "bad utf-8": http(200, b'{"result":{"header":{"revision":"\xff"}},"header":{"revision":"\xff"}}'),
    "a word for a number": http(200, b'{"result":{"header":{"revision":"abc"}},"header":{"revision":"abc"}}'),
    "5,000 digits": http(
        200, b'{"result":{"header":{"revision":"%s"}}, "header":{"revision":"%s"}}' % ((b"9" * 5000,) * 2)
    ),
    "an error with bad utf-8": http(400, b'{"error":"\xff","code":3}'),
    "not found": http(404, b"404 page not found\n"),
    "not found as json": http(404, b'{"detail":"Not Found"}'),
    "an error as json": http(404, b'{"error":"Not Found","code":404}'),
    "moved": http(301, b"", b"location: /x\r\n"),
    "old": b"HTTP/1.0 200 OK\r\n\r\n<html></html>",
    "tls only": b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "redis": b"-ERR unknown command\r\n",
    "bytes": bytes(range(128, 256)),
}


@pytest.mark.parametrize("answer", OTHER_PROGRAMS.values(), ids=OTHER_PROGRAMS)
@pytest.mark.parametrize("keep", [True, False], ids=["keeps", "closes"])
def test_another_program_is_not_taken_for_a_store(answer, keep):
    if answer.startswith(b"HTTP/1.0"):
        keep = False
    service = Service(answer, keep=keep)
    drivers = [Driver(service.port, answer_time=1.0) for _ in range(3)]
    received = []

    refusals = [drivers[0].ask(Range(key=b"a")), drivers[1].ask(Put(key=b"a"))]
    drivers[2].client.watch(WatchCreate(key=b"a"), received.append)
    drivers[2].until(lambda: received)

    for refusal in [*refusals, *received]:
        assert isinstance(refusal, NotAStore), refusal
        assert refusal.code == UNKNOWN
    for driver in drivers:
        driver.client.close()
    service.close()


def test_an_answer_that_breaks_off_is_lost():
    service = Service(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
    driver = Driver(service.port)

    assert isinstance(driver.ask(Range(key=b"a")), Lost)
    driver.client.close()
    service.close()


def test_a_wrong_token_is_a_refusal_of_its_own():
    server = Embedded(token="right")
    driver = Driver(server.port, token="wrong")

    assert isinstance(driver.ask(Range(key=b"a")), Unauthenticated)
    driver.client.close()
    server.close()


@pytest.mark.parametrize("kind", [Embedded, Etcd], ids=["flota", "etcd"])
def test_a_watch_of_a_past_that_is_forgotten_is_refused(kind, monkeypatch):
    monkeypatch.setattr(server_watches, "LARGEST_HISTORY", 8 * server_watches.EVENT_SIZE)
    server = kind()
    driver = Driver(server.port)
    for _ in range(20):
        last = driver.ask(Put(key=b"k"))
    if isinstance(server, Etcd):
        server.ask("/v3/kv/compaction", {"revision": last.header.revision})
    received = []

    driver.client.watch(WatchCreate(key=b"k", start_revision=2), received.append)
    driver.until(lambda: received and isinstance(received[-1], Refusal))

    assert (received[-1].code, received[-1].words) == (11, "etcdserver: mvcc: required revision has been compacted")
    driver.client.close()
    server.close()
