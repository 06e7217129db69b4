"""The shepherd revokes the lease of its dead node: it is gone at once, and no member can hold that up."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time

import pytest

from flota.store import dns, revoke_lease
from flota.store.etcd_json import LeaseGrant, LeaseKeepAlive, Put, Range
from flota.store.revoke_lease import revoke
from tests.store.certificates import client_context, server_context
from tests.store.servers import Driver, Embedded, Etcd

HERE = "127.0.0.1"
PATIENT = 20.0


@pytest.fixture
def driver(store):
    made = Driver(store.port)
    yield made
    made.client.close()


@pytest.fixture
def lease(driver):
    number = int(driver.ask(LeaseGrant(ttl=60)).id)
    driver.ask(Put(key=b"node", lease=number))
    return number


@pytest.fixture
def silent():
    """Accepts connections and never answers."""
    with socket.create_server((HERE, 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def patient(monkeypatch):
    """For what has to succeed, on a busy machine as well; other tests check how long it may take."""
    monkeypatch.setattr(revoke_lease, "LONGEST", PATIENT)


def timed(act):
    began = time.monotonic()
    return act(), time.monotonic() - began


def test_a_final_value_outlives_the_lease_by_some_seconds(store, driver, lease, patient):
    assert revoke([(HERE, store.port)], lease, final_put=(b"node", b"dead")) is True

    (entry,) = driver.ask(Range(key=b"node")).kvs
    assert entry.value == b"dead"
    assert 0 < int(driver.ask(LeaseKeepAlive(id=int(entry.lease))).ttl) <= revoke_lease.FINAL_TTL


def test_a_lease_and_its_keys_are_gone(store, driver, lease, patient):
    assert revoke([(HERE, store.port)], lease) is True

    assert driver.ask(LeaseKeepAlive(id=lease)).ttl == "0"
    assert driver.ask(Range(key=b"node")).kvs == []


def test_a_lease_that_is_gone_already_is_gone(store, patient):
    assert revoke([(HERE, store.port)], 4242) is True


def test_a_silent_member_does_not_hold_up_the_next(store, lease, silent, patient):
    done, took = timed(lambda: revoke([(HERE, silent), (HERE, store.port)], lease))

    assert done is True
    assert took < PATIENT


def test_names_are_looked_up(store, lease, patient):
    assert revoke([("localhost", store.port)], lease) is True


def test_every_address_of_a_name_is_tried(store, lease, monkeypatch, patient):
    addresses = [(socket.AF_INET, ("127.0.0.9", store.port)), (socket.AF_INET, (HERE, store.port))]
    monkeypatch.setattr(dns, "find_addresses", lambda *_, flags=0: [] if flags else addresses)

    assert revoke([("store", store.port)], lease) is True


def test_a_resolver_that_does_not_answer_is_not_waited_for(store, lease, monkeypatch, patient):
    release = threading.Event()
    real = dns.find_addresses

    def slow(host, port, *, flags=0):
        if host == "slow":
            assert flags or release.wait(60)
            raise OSError("not now")
        return real(host, port, flags=flags)

    monkeypatch.setattr(dns, "find_addresses", slow)

    done, took = timed(lambda: revoke([("slow", 1), (HERE, store.port)], lease))
    release.set()

    assert done is True
    assert took < PATIENT


def test_no_answer_at_all_is_not_an_error(silent):
    with socket.socket() as unused:
        unused.bind((HERE, 0))
        places = [(HERE, unused.getsockname()[1]), (HERE, silent), ("no.such.host.invalid", 1), ("", 0), ("x" * 400, 1)]

        done, took = timed(lambda: revoke(places, 1))

    assert done is False
    assert took < PATIENT  # half a second, and what a busy machine adds


def test_no_members_is_not_an_error():
    assert revoke([], 1) is False


def test_an_answer_without_end_is_cut_short():
    with socket.create_server((HERE, 0)) as service:
        stop = threading.Event()

        def serve():
            client, _ = service.accept()
            with client:
                while not stop.is_set():
                    try:
                        client.sendall(b"x")
                    except OSError:
                        return
                    stop.wait(0.01)

        thread = threading.Thread(target=serve)
        thread.start()
        done, took = timed(lambda: revoke([(HERE, service.getsockname()[1])], 1))
        stop.set()
        thread.join()

    assert done is False
    assert took < PATIENT  # half a second, and what a busy machine adds


@pytest.mark.parametrize(("token", "done"), [("right", True), ("wrong", False)])
def test_it_carries_the_token(token, done, patient):
    server = Embedded(token="right")
    driver = Driver(server.port, token="right")
    number = int(driver.ask(LeaseGrant(ttl=60)).id)

    assert revoke([(HERE, server.port)], number, [("authorization", token)]) is done

    assert driver.ask(LeaseKeepAlive(id=number)).ttl == ("0" if done else "60")
    driver.client.close()
    server.close()


def test_it_speaks_tls(certificates, patient):
    server = Embedded(tls=server_context(certificates, wants_client=True))
    context = client_context(certificates, own=True)
    driver = Driver(server.port, tls=context)
    number = int(driver.ask(LeaseGrant(ttl=60)).id)

    assert revoke([(HERE, server.port)], number, tls=context) is True
    assert revoke([(HERE, server.port)], number) is False  # without TLS

    assert driver.ask(LeaseKeepAlive(id=number)).ttl == "0"
    driver.client.close()
    server.close()


def test_a_paused_etcd_does_not_hold_up_another(patient):
    etcds = [Etcd(), Etcd()]
    driver = Driver(etcds[1].port)
    number = int(driver.ask(LeaseGrant(ttl=60)).id)
    etcds[0].pause()

    done, took = timed(lambda: revoke([(HERE, etcd.port) for etcd in etcds], number))

    assert done is True
    assert took < PATIENT
    driver.client.close()
    for etcd in etcds:
        etcd.close()


def test_it_needs_no_library():
    code = "import sys, flota.store.revoke_lease; print([name for name in ('h11', 'msgspec', 'ssl', 'threading') if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert loaded.stdout.strip() == "[]"
