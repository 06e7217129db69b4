"""How a client gets to a store: names, addresses, connections that take their time or end early."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from flota.host.loop import Loop
from flota.job.nodes import Place
from flota.store import dns
from flota.store.client import Client, Lost
from flota.store.etcd_json import LeaseGrant, Put, Range, Refusal, Unauthenticated, WatchCreate
from flota.store.server import Master
from tests.launching import wait_until
from tests.store.certificates import client_context, server_context
from tests.store.servers import Driver, Embedded
from tests.strangers import STRANGERS, taken_port

HERE = "127.0.0.1"


@pytest.fixture
def book(monkeypatch):
    """What a resolver would say: a name to addresses, or to something that is called first."""
    entries = {}
    real = dns.find_addresses

    def find(host, port, *, flags=0):
        if flags or host not in entries:
            return real(host, port, flags=flags)
        entry = entries[host]
        return [(socket.AF_INET, (address, port)) for address in (entry() if callable(entry) else entry)]

    monkeypatch.setattr(dns, "find_addresses", find)
    return entries


class Named(Driver):
    def __init__(self, host: str, port: int, **options) -> None:
        self.loop = Loop()
        self.client = Client((Place(host, port),), self.loop, **options)


def test_a_name_is_looked_up(master):
    driver = Named("localhost", master.port)

    assert not isinstance(driver.ask(Put(key=b"a")), Lost)
    driver.client.close()


def test_every_address_of_a_name_is_tried(master, book):
    book["store"] = ["127.0.0.8", "127.0.0.9", HERE]
    driver = Named("store", master.port)

    assert not isinstance(driver.ask(Put(key=b"a")), Lost)
    driver.client.close()


def test_when_no_address_answers_the_loss_names_the_name(master, book):
    book["store"] = ["127.0.0.8", "127.0.0.9"]
    driver = Named("store", master.port)

    assert driver.ask(Put(key=b"a")).why == f"store:{master.port}: connection refused"
    driver.client.close()


@pytest.mark.parametrize("name", ["no.such.host.invalid", "x" * 400, "a..b", "café\udc80"])
def test_an_unknown_name_is_lost_with_the_name(name):
    driver = Named(name, 2379)
    received = []
    driver.client.watch(WatchCreate(key=b"a"), received.append)

    lost = driver.ask(Put(key=b"a"))
    driver.until(lambda: received)

    assert isinstance(lost, Lost) and isinstance(received[0], Lost)
    assert name in lost.why
    driver.client.close()


def test_a_slow_resolver_does_not_stop_the_loop(master, book):
    release = threading.Event()
    book["slow"] = lambda: release.wait(60) and [HERE]
    driver = Named("slow", master.port)
    answers = []
    driver.client.ask(Put(key=b"a"), answers.append, time.monotonic())
    began = time.monotonic()

    for _ in range(5):
        driver.loop.turn(0.01)
    assert time.monotonic() - began < 30
    assert answers == []
    release.set()
    driver.until(lambda: answers)

    assert not isinstance(answers[0], Lost)
    driver.client.close()


@contextlib.contextmanager
def served(**options):
    master = Embedded(**options)
    try:
        yield master
    finally:
        master.close()


@pytest.mark.parametrize("stranger", STRANGERS)
def test_the_masters_port_is_found_beside_those_of_strangers(stranger):
    with served(job="this") as master, taken_port(STRANGERS[stranger]) as own, socket.socket() as closed:
        closed.bind((HERE, 0))  # nothing listens there
        spare = closed.getsockname()[1], master.port
        options = {"spare_ports": spare, "job": "this", "accepts_etcd": False, "answer_time": 0.2}
        driver = Named(HERE, own, **options)

        lost, *answers = [driver.ask(LeaseGrant(ttl=5)) for _ in range(3)]

        assert isinstance(lost, Lost) and lost.why.startswith(f"{HERE}:{own}: ")
        assert not any(isinstance(answer, (Lost, Refusal)) for answer in answers)
        assert driver.client.members == (Place(HERE, master.port),)
        driver.client.close()


@pytest.mark.parametrize("token", ["", "of another job"])
def test_the_master_of_another_job_is_a_stranger(token):
    refused = []
    with (
        served(job="that", token=token, on_refused=refused.append) as other,
        served(job="this", token="of this job") as master,
    ):
        driver = Named(HERE, other.port, token="of this job", spare_ports=(master.port,), job="this")

        assert "the master of another job" in driver.ask(LeaseGrant(ttl=5)).why
        assert not isinstance(driver.ask(LeaseGrant(ttl=5)), (Lost, Refusal))
        driver.client.close()
    assert not refused


def test_a_wrong_token_for_the_jobs_own_master_is_refused():
    with served(job="this", token="right") as master:
        driver = Named(HERE, master.port, token="wrong", spare_ports=(1,), job="this")

        assert isinstance(driver.ask(LeaseGrant(ttl=5)), Unauthenticated)
        driver.client.close()


def test_an_address_that_never_answers_is_not_the_first_the_next_time(master, book):
    with socket.create_server(("127.0.0.7", master.port)):
        book["store"] = ["127.0.0.7", HERE]
        driver = Named("store", master.port)

        assert isinstance(driver.ask(Put(key=b"a")), Lost)
        assert not isinstance(driver.ask(Put(key=b"a")), Lost)
        driver.client.close()


def test_a_client_closed_while_a_name_is_looked_up_calls_nothing_more(book):
    release = threading.Event()
    book["slow"] = lambda: release.wait(60) and [HERE]
    driver = Named("slow", 1)
    open_before = set(os.listdir("/proc/self/fd"))
    received = []
    driver.client.ask(Put(key=b"a"), received.append, time.monotonic())
    driver.client.watch(WatchCreate(key=b"a"), received.append)

    driver.client.close()
    release.set()
    driver.loop.turn(0.05)

    assert received == []
    give_up = time.monotonic() + 30
    while set(os.listdir("/proc/self/fd")) - open_before:
        assert time.monotonic() < give_up, "descriptors are left"
        time.sleep(0.01)


def test_an_address_needs_no_thread():
    code = """
import sys
from flota.host.loop import Loop
from flota.job.nodes import Place
from flota.store.client import Client
loop = Loop()
answers = []
client = Client((Place("127.0.0.1", 1), ), loop)
from flota.store.etcd_json import Range
client.ask(Range(key=b"a"), answers.append, 0.0)
while not answers:
    loop.turn(1)
print("threading" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)

    assert run.stdout.strip() == "False"


def test_an_ipv6_address_is_reached():
    try:
        loop = Loop()
        master = Master("::1", 0, loop)
    except OSError:
        pytest.skip("no IPv6 here")
    client = Client((Place("::1", master.port),), loop)
    answers = []
    client.ask(Put(key=b"a"), answers.append, time.monotonic())
    give_up = time.monotonic() + 30
    while not answers and time.monotonic() < give_up:
        loop.turn(0.1)

    assert not isinstance(answers[0], Lost)
    client.close()
    master.close()


def test_a_store_may_close_the_connection_with_its_answer():
    answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 28\r\n\r\n" + b'{"header":{"revision": "7"}}'
    with socket.create_server((HERE, 0)) as server:

        def serve():
            for _ in range(2):
                client, _ = server.accept()
                with client:
                    client.recv(4096)
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        driver = Driver(server.getsockname()[1])
        revisions = [driver.ask(Range(key=b"a")).header.revision for _ in range(2)]
        thread.join()
        driver.client.close()

    assert revisions == ["7", "7"]


def test_a_bug_of_the_caller_is_not_taken_for_a_lost_store(master):
    driver = Driver(master.port)

    def fail(_):
        raise ValueError("mine")

    driver.client.ask(Put(key=b"a"), fail, time.monotonic())
    with pytest.raises(ValueError, match="mine"):
        driver.until(lambda: False)
    driver.client.close()


def test_a_slow_connection_is_not_an_error_with_tls(certificates):
    with socket.socket() as full:
        full.bind((HERE, 0))
        full.listen(0)
        fill = [socket.socket() for _ in range(3)]
        for one in fill:
            one.settimeout(0)
            one.connect_ex(full.getsockname())
        driver = Driver(full.getsockname()[1], tls=client_context(certificates))

        assert isinstance(driver.ask(Put(key=b"a")), Lost)
        for one in fill:
            one.close()
        driver.client.close()


def test_waiting_for_a_handshake_takes_no_processor_time(certificates):
    with socket.create_server((HERE, 0)) as silent:
        driver = Driver(silent.getsockname()[1], tls=client_context(certificates))
        answers = []
        driver.client.ask(Put(key=b"a"), answers.append, time.monotonic())

        def rests() -> bool:
            began = time.monotonic()
            driver.loop.turn(0.3)
            return time.monotonic() - began >= 0.3

        wait_until(rests, "a turn without events")  # the first ones connect, and send the first words of the handshake
        assert answers == []
        driver.client.close()


def test_the_master_survives_a_tls_client_that_speaks_and_leaves_before_it_is_looked_at(certificates):
    loop = Loop()
    master = Master(HERE, 0, loop, tls=server_context(certificates, wants_client=False))
    for data in (b"", b"\x16\x03\x01", b"hello"):
        client = socket.create_connection((HERE, master.port))
        client.sendall(data)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
        client.close()

    for _ in range(5):
        loop.turn(0.05)

    assert master.connections == {}
    master.close()
