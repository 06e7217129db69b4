"""TLS, both ways: the embedded master's, and a real etcd that wants client certificates and users."""

from __future__ import annotations

import socket
import ssl

import pytest

from flota.store.client import Lost
from flota.store.etcd_json import Put, Range, Refusal, WatchCreate
from tests.store.certificates import authority, client_context, server_context
from tests.store.servers import Driver, Embedded


def test_questions_and_watches_go_through_tls(certificates):
    server = Embedded(tls=server_context(certificates, wants_client=True), token="t")
    driver = Driver(server.port, tls=client_context(certificates, own=True), token="t")
    received = []
    driver.client.watch(WatchCreate(key=b"k"), received.append)
    driver.until(lambda: received)

    big = b"x" * 500_000
    driver.ask(Put(key=b"k", value=big))
    driver.until(lambda: any(answer.events for answer in received))

    assert driver.ask(Range(key=b"k")).kvs[0].value == big
    driver.client.close()
    server.close()


@pytest.mark.parametrize("case", ["no certificate", "no tls", "wrong authority"])
def test_a_client_without_credentials_is_refused(certificates, case, tmp_path):
    server = Embedded(tls=server_context(certificates, wants_client=True))
    if case == "wrong authority":
        authority(tmp_path)
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    else:
        context = client_context(certificates) if case == "no certificate" else None
    driver = Driver(server.port, tls=context)

    answer = driver.ask(Put(key=b"k"))

    assert isinstance(answer, (Lost, Refusal))
    driver.client.close()
    server.close()


def test_a_handshake_that_never_ends_is_given_up(certificates, monkeypatch):
    from flota.store import server_connection

    monkeypatch.setattr(server_connection, "REQUEST_TIME", 0.3)
    server = Embedded(tls=server_context(certificates, wants_client=False))
    half = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    half.sendall(b"\x16\x03\x01")

    assert half.recv(100) == b""  # closed by the master
    half.close()
    driver = Driver(server.port, tls=client_context(certificates))
    assert not isinstance(driver.ask(Put(key=b"k")), (Lost, Refusal))
    driver.client.close()
    server.close()
