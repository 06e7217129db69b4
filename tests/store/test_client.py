"""The client, against flota's own master and against real etcd: the same behaviour."""

from __future__ import annotations

import socket
import time

import pytest

from flota.store.client import Lost
from flota.store.etcd_json import (
    Compare,
    DeleteRange,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
    Operation,
    Put,
    Range,
    Refusal,
    Txn,
    WatchCreate,
)
from tests.store.servers import Driver, Embedded


@pytest.fixture
def driver(store):
    made = Driver(store.port)
    made.ask(DeleteRange(key=b"\0", range_end=b"\0"))
    yield made
    made.client.close()


def test_put_and_get(driver):
    driver.ask(Put(key=b"a", value=b"\x00\xff1"))

    (found,) = driver.ask(Range(key=b"a")).kvs
    assert (found.key, found.value, found.version) == (b"a", b"\x00\xff1", "1")


def test_create_if_absent_succeeds_once(driver):
    create = Txn(
        compare=[Compare(key=b"coordinator", target="CREATE")],
        success=[Operation(request_put=Put(key=b"coordinator", value=b"me"))],
    )

    assert [driver.ask(create).succeeded for _ in range(2)] == [True, False]


def test_keys_end_with_their_lease(driver):
    lease = driver.ask(LeaseGrant(ttl=60))
    driver.ask(Put(key=b"mine", value=b"1", lease=int(lease.id)))
    assert driver.ask(LeaseKeepAlive(id=int(lease.id))).ttl == "60"

    driver.ask(LeaseRevoke(id=int(lease.id)))

    assert driver.ask(Range(key=b"mine")).kvs == []
    assert driver.ask(LeaseKeepAlive(id=int(lease.id))).ttl == "0"


def test_a_lease_that_is_not_kept_alive_expires(driver):
    lease = driver.ask(LeaseGrant(ttl=2))
    driver.ask(Put(key=b"mine", value=b"1", lease=int(lease.id)))
    received = []
    driver.client.watch(WatchCreate(key=b"mine"), received.append)

    driver.until(lambda: any(event.type == "DELETE" for answer in received for event in answer.events), 10)


def test_a_refusal_says_why(driver):
    refusal = driver.ask(Put(key=b"x", value=b"1", lease=4242))

    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.words) == (5, "etcdserver: requested lease not found")


def test_a_watch_gets_every_change_from_a_revision_on(driver):
    first = driver.ask(Put(key=b"k", value=b"0"))
    received = []
    driver.client.watch(WatchCreate(key=b"k", start_revision=int(first.header.revision)), received.append)
    for number in range(1, 6):
        driver.ask(Put(key=b"k", value=str(number).encode()))

    values = lambda: [event.kv.value for answer in received for event in answer.events]  # noqa: E731
    driver.until(lambda: len(values()) == 6)
    assert values() == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_questions_are_answered_in_order(driver):
    answers = []
    for number in range(50):
        driver.client.ask(Put(key=b"n", value=str(number).encode()), answers.append, time.monotonic())
    driver.until(lambda: len(answers) == 50)

    assert driver.ask(Range(key=b"n")).kvs[0].value == b"49"


def test_a_dead_member_costs_one_question_and_the_next_goes_to_another(store):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        driver = Driver(unused.getsockname()[1], store.port)

        assert isinstance(driver.ask(Put(key=b"a")), Lost)
        assert not isinstance(driver.ask(Put(key=b"a")), Lost)
        driver.client.close()


def test_a_silent_member_is_given_up_in_time(store):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        driver = Driver(silent.getsockname()[1], store.port)

        assert isinstance(driver.ask(Put(key=b"a")), Lost)
        assert not isinstance(driver.ask(Put(key=b"a")), Lost)
        driver.client.close()


@pytest.mark.parametrize(("token", "granted"), [("right", True), ("wrong", False), ("", False)])
def test_a_token_guards_every_request(token, granted):
    server = Embedded(token="right")
    driver = Driver(server.port, token=token)

    answer = driver.ask(Put(key=b"a"))
    received = []
    driver.client.watch(WatchCreate(key=b"a"), received.append)
    driver.until(lambda: received)
    driver.client.close()
    server.close()

    assert isinstance(answer, Refusal) is not granted
    assert isinstance(received[0], Refusal) is not granted
    if not granted:
        assert answer.code == received[0].code == 16


@pytest.mark.parametrize("asks", ["requests", "watch"])
def test_wrong_tokens_are_reported_seldom(asks):
    reported, received = [], []
    server = Embedded(token="right", on_refused=reported.append)
    driver = Driver(server.port, token="wrong")
    honest = Driver(server.port, token="right")

    assert not isinstance(honest.ask(Put(key=b"a")), Refusal)
    assert reported == []
    if asks == "watch":
        driver.client.watch(WatchCreate(key=b"a"), received.append)
        driver.until(lambda: received)
    for _ in range(20 if asks == "requests" else 0):
        assert isinstance(driver.ask(Put(key=b"a")), Refusal)

    assert reported == ["127.0.0.1"]
    for made in (driver, honest):
        made.client.close()
    server.close()
