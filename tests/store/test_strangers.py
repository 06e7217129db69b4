"""A stranger's client (etcd3gw) can use the embedded master, as it uses a real etcd."""

from __future__ import annotations

import threading

import etcd3gw
import pytest

from tests.store.servers import Embedded, Etcd


@pytest.fixture(scope="module", params=[Embedded, Etcd], ids=["flota", "etcd"])
def store(request):
    server = request.param()
    yield server
    server.close()


@pytest.fixture
def etcd(store):
    client = etcd3gw.client(host="127.0.0.1", port=store.port, api_path="/v3/")
    for _, about in client.get_all():
        client.delete(about["key"])
    yield client
    client.session.close()


def test_put_get_delete(etcd):
    assert etcd.put("a", "1")
    assert etcd.get("a") == [b"1"]
    assert etcd.delete("a")
    assert etcd.get("a") == []


def test_prefix_and_all(etcd):
    for name in ("p/2", "p/1", "q"):
        etcd.put(name, name)

    assert [value for value, _ in etcd.get_prefix("p/")] == [b"p/1", b"p/2"]
    assert len(etcd.get_all()) == 3
    assert etcd.delete_prefix("p/")
    assert [value for value, _ in etcd.get_all()] == [b"q"]


def test_metadata_and_sorting(etcd):
    etcd.put("s/a", "2")
    etcd.put("s/b", "1")
    etcd.put("s/a", "3")

    pairs = etcd.get_prefix("s/", sort_order="descend", sort_target="mod")
    assert [(value, about["version"]) for value, about in pairs] == [(b"3", "2"), (b"1", "1")]


def test_create_and_replace(etcd):
    assert etcd.create("c", "1") is True
    assert etcd.create("c", "2") is False
    assert etcd.replace("c", "1", "3") is True
    assert etcd.replace("c", "1", "4") is False
    assert etcd.get("c") == [b"3"]


def test_a_transaction(etcd):
    from base64 import b64encode

    key = b64encode(b"t").decode()
    result = etcd.transaction(
        {
            "compare": [{"key": key, "result": "EQUAL", "target": "VERSION", "version": 0}],
            "success": [
                {"request_put": {"key": key, "value": b64encode(b"v").decode()}},
                {"request_range": {"key": key}},
            ],
            "failure": [],
        }
    )

    assert result["succeeded"] is True
    assert result["responses"][1]["response_range"]["kvs"][0]["value"] == b64encode(b"v").decode()


def test_leases(etcd):
    lease = etcd.lease(ttl=60)
    etcd.put("l/1", "x", lease=lease)
    etcd.put("l/2", "y", lease=lease)

    assert 50 < lease.ttl() <= 60
    assert sorted(lease.keys()) == [b"l/1", b"l/2"]
    assert lease.refresh() == 60
    assert lease.revoke()
    assert etcd.get_prefix("l/") == []


def test_a_watch(etcd):
    events, cancel = etcd.watch("w")
    threading.Timer(0.2, lambda: etcd.put("w", "seen")).start()

    event = next(iter(events))

    cancel()
    assert event["kv"]["value"] == b"seen"


def test_status_and_members(etcd):
    assert etcd.status()["version"].startswith("3.")
    assert [member["ID"] for member in etcd.members()]
