"""A client that is not flota's (etcd3gw) can use the embedded master as it uses a real etcd, within the subset."""

from __future__ import annotations

import threading

import etcd3gw
import pytest

from tests.store.servers import Embedded


@pytest.fixture
def etcd(store):
    client = etcd3gw.client(host="127.0.0.1", port=store.port)  # asks for /version
    for _, about in client.get_all():
        client.delete(about["key"])
    yield client
    client.session.close()


@pytest.fixture
def embedded():
    server = Embedded()
    client = etcd3gw.client(host="127.0.0.1", port=server.port)
    yield client
    client.session.close()
    server.close()


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


def test_metadata(etcd):
    for value in ("1", "2"):
        etcd.put("m", value)

    ((value, about),) = etcd.get("m", metadata=True)
    assert (value, about["version"]) == (b"2", "2")


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
            "compare": [{"key": key, "result": "EQUAL", "target": "CREATE", "create_revision": 0}],
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

    assert lease.refresh() == 60
    assert lease.revoke()
    assert etcd.get_prefix("l/") == []


def test_a_watch(etcd):
    events, cancel = etcd.watch("w")
    threading.Timer(0.2, lambda: etcd.put("w", "seen")).start()

    event = next(iter(events))

    cancel()
    assert event["kv"]["value"] == b"seen"


def test_status(etcd):
    assert etcd.status()["version"].startswith("3.")


UNSUPPORTED = {
    "order": lambda etcd: etcd.get_prefix("a", sort_order="descend", sort_target="mod"),
    "limit": lambda etcd: etcd.get("a", limit=1),
    "keys_only": lambda etcd: etcd.get("a", keys_only=True),
    "prev_kv": lambda etcd: etcd.delete("a", prev_kv=True),
    "version": lambda etcd: etcd.transaction({"compare": [{"key": "YQ==", "target": "VERSION", "version": 0}]}),
    "nested": lambda etcd: etcd.transaction({"success": [{"request_txn": {}}]}),
    "time to live": lambda etcd: etcd.lease(ttl=60).ttl(),
    "members": lambda etcd: etcd.members(),
}


@pytest.mark.parametrize("ask", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_is_not_supported_is_an_error_that_says_so(embedded, ask):
    with pytest.raises(etcd3gw.exceptions.Etcd3Exception) as error:
        ask(embedded)

    assert "not supported by this store" in error.value.detail_text


def test_a_watch_with_options_is_refused(embedded):
    for option in ({"prev_kv": True}, {"filters": ["NOPUT"]}, {"progress_notify": True}, {"fragment": True}):
        answer = embedded.session.post(embedded.get_url("/watch"), json={"create_request": {"key": "YQ==", **option}})

        assert answer.status_code == 400
        assert answer.json()["code"] == 3
        assert next(iter(option)) in answer.json()["message"]
