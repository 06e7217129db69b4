"""A lease tied to a connection: a node that dies is noticed at once, one that moves on is not taken for dead."""

from __future__ import annotations

import os
import time

import pytest

from flota.store import server, server_connection
from flota.store.client import Lost
from flota.store.etcd_json import LeaseGrant, LeaseKeepAlive, LeaseRevoke, Put, Range, WatchCreate
from tests.launching import wait_until
from tests.store.servers import Client, Driver, Embedded, Etcd

NODE = WatchCreate(key=b"roster")


@pytest.fixture
def observer(master):
    made = Driver(master.port)
    yield made
    made.client.close()


class Node:
    """A node as the master sees it: a lease, a key that lives with it, and a watch that carries it."""

    def __init__(self, port: int) -> None:
        self.driver = Driver(port)
        self.lease = int(self.driver.ask(LeaseGrant(ttl=60)).id)
        self.driver.ask(Put(key=b"node", value=b"here", lease=self.lease))
        self.watches = []
        self.watch()

    def watch(self):
        received = []
        self.watches.append(self.driver.client.watch(NODE, received.append, lease=self.lease))
        self.driver.until(lambda: received)
        return received


def test_a_nodes_keys_go_with_its_connection(master, observer):
    node = Node(master.port)
    received = []
    observer.client.watch(WatchCreate(key=b"node"), received.append)
    observer.until(lambda: received)

    node.driver.client.close()
    observer.until(lambda: len(received) > 1)

    assert [event.type for event in received[1].events] == ["DELETE"]
    assert observer.ask(LeaseKeepAlive(id=node.lease)).ttl == "0"


def test_a_node_that_moves_on_is_kept_until_its_last_connection_ends(master, observer):
    node = Node(master.port)
    node.watch()

    node.watches[0].close()
    wait_for_watchers(master, 1)
    assert len(observer.ask(Range(key=b"node")).kvs) == 1

    node.watches[1].close()
    wait_for_watchers(master, 0)
    wait_until(lambda: observer.ask(Range(key=b"node")).kvs == [], "the key's end")
    node.driver.client.close()


def test_a_node_whose_connection_broke_is_kept_if_it_renews(master, observer, monkeypatch):
    monkeypatch.setattr(server, "RECONNECT_TIME", 2.0)  # on a busy machine as well
    node = Node(master.port)
    node.watches[0].close()
    wait_for_watchers(master, 0)
    assert node.driver.ask(LeaseKeepAlive(id=node.lease)).ttl == "60"
    time.sleep(2 * server.RECONNECT_TIME)
    assert len(observer.ask(Range(key=b"node")).kvs) == 1
    node.driver.client.close()


def test_a_lease_that_was_already_revoked_is_not_an_error(master, observer):
    node = Node(master.port)
    observer.ask(LeaseRevoke(id=node.lease))

    node.driver.client.close()
    wait_for_watchers(master, 0)

    assert observer.ask(Range(key=b"node")).kvs == []


def test_an_end_is_seen_though_a_forked_process_holds_the_socket(master, observer):
    node = Node(master.port)
    kept = os.dup(node.watches[0]._connection._socket.fileno())

    node.driver.client.close()
    wait_until(lambda: observer.ask(Range(key=b"node")).kvs == [], "the key's end")
    os.close(kept)


def test_the_master_is_seen_to_close_though_a_forked_process_holds_its_sockets(master):
    node = Node(master.port)
    received = node.watch()
    kept = [os.dup(fd) for fd in [*master.master.connections, master.master._listener.fileno()]]

    master.close()
    node.driver.until(lambda: isinstance(received[-1], Lost))

    assert isinstance(node.driver.ask(Range(key=b"node")), Lost)
    node.driver.client.close()
    for fd in kept:
        os.close(fd)


def test_a_watcher_that_is_given_up_keeps_its_lease(master, observer, monkeypatch):
    monkeypatch.setattr(server_connection, "LARGEST_BACKLOG", 1 << 20)
    node = Node(master.port)  # which from here on does not read

    with Client(master.port) as writer:
        for _ in range(40):
            writer.ask("/v3/kv/put", {"key": "cm9zdGVy", "value": "A" * 800_000})
    wait_for_watchers(master, 0)

    assert len(observer.ask(Range(key=b"node")).kvs) == 1
    node.driver.client.close()


def test_a_lease_that_is_not_a_number_is_refused(master):
    with Client(master.port) as client:
        status, answer = client.ask("/v3/watch", {"create_request": {}}, {"x-flota-lease": "many"})

    assert (status, answer["message"]) == (400, "x-flota-lease is not a number")


def test_a_real_etcd_does_not_look_at_it():
    etcd = Etcd()
    observer = Driver(etcd.port)
    node = Node(etcd.port)

    node.driver.client.close()

    assert observer.ask(LeaseKeepAlive(id=node.lease)).ttl == "60"
    observer.client.close()
    etcd.close()


def wait_for_watchers(master: Embedded, count: int) -> None:
    give_up = time.monotonic() + 30
    while sum(bool(one.watch) for one in list(master.master.connections.values())) != count:
        assert time.monotonic() < give_up, "the master still has other watchers"
        time.sleep(0.005)
