"""Damaged HTTP, through real sockets: the master goes on serving, and a client gets one outcome per request."""

from __future__ import annotations

import errno
import os
import socket
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flota.store.client import Lost
from flota.store.etcd_json import Authenticate, LeaseGrant, LeaseKeepAlive, Range, Refusal, StoreAnswer, WatchCreate
from tests.mutations import damaged
from tests.store.servers import Client, Driver, Embedded

EXAMPLES = 3000 if os.environ.get("FLOTA_SOAK") else 300
SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: t\r\nx-flota-lease: 7\r\ncontent-length: "
    return head.encode() + b"%d\r\n\r\n" % len(body) + body


REQUESTS = (
    post("/v3/kv/range", b'{"key":"AA==","range_end":"AA==","sort_order":"NONE"}'),
    post("/v3/kv/put", b'{"key":"YQ==","value":"MQ==","lease":"7"}'),
    post("/v3/kv/txn", b'{"success":[{"request_put":{"key":"YQ=="}}]}'),
    post("/v3/lease/grant", b'{"TTL":"5","ID":"7"}'),
    post("/v3/watch", b'{"create_request":{"key":"YQ==","start_revision":"1"}}'),
    post("/v3/auth/authenticate", b'{"name":"a"}'),
    b"GET /version HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
)


@pytest.fixture(scope="module")
def master():
    server = Embedded()
    yield server
    server.close()


CLOSED = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)  # by the master, maybe before all was sent


@SETTINGS
@given(request=st.sampled_from(REQUESTS).flatmap(damaged))
def test_the_master_goes_on_serving_after_a_damaged_request(master, request):
    with socket.create_connection(("127.0.0.1", master.port), timeout=30) as client:
        try:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError as error:
            if error.errno not in CLOSED:
                raise

    with Client(master.port) as honest:
        assert honest.ask("/v3/kv/range", {"key": "aG9uZXN0"})[0] == 200


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
ANSWERS = (
    b'{"header":{"revision":"5"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"3","value":"MQ=="}]}',
    b'{"header":{"revision":"5"},"ID":"7","TTL":"5"}',
    b'{"result":{"header":{"revision":"5"},"ID":"7","TTL":"5"}}',
    b'{"header":{"revision":"5"},"token":"abc.1"}',
    b'{"result":{"header":{"revision":"5"},"created":true,"canceled":true,"cancel_reason":"x","compact_revision":"3"}}',
    b'{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}',
)
WHOLE = tuple(HEAD + b"%d\r\n\r\n%s" % (len(body), body) for body in ANSWERS)


class Stranger:
    """Sends the same bytes to every client, then closes the connection."""

    def __init__(self) -> None:
        self.answer = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                try:
                    client.recv(65536)
                    client.sendall(self.answer)
                    client.shutdown(socket.SHUT_WR)
                    client.recv(65536)
                except OSError:
                    pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@pytest.fixture(scope="module")
def stranger():
    server = Stranger()
    yield server
    server.close()


@SETTINGS
@given(
    answer=st.one_of(
        st.sampled_from(WHOLE).flatmap(damaged),
        st.sampled_from(ANSWERS).flatmap(damaged).map(lambda body: HEAD + b"%d\r\n\r\n%s" % (len(body), body)),
    ),
    request=st.sampled_from([Range(key=b"a"), LeaseGrant(ttl=5), LeaseKeepAlive(id=7), Authenticate("a", "b")]),
)
def test_a_client_gets_one_outcome_whatever_a_stranger_answers(stranger, answer, request):
    stranger.answer = answer
    driver = Driver(stranger.port, answer_time=5.0, user="a", password="b")
    watched = []

    driver.client.watch(WatchCreate(key=b"a"), watched.append)
    outcome = driver.ask(request)
    driver.until(lambda: watched)

    assert isinstance(outcome, (StoreAnswer, Refusal, Lost))
    driver.client.close()
