"""etcd's v3 JSON gateway in front of the store: from a path and a body to the answer's text."""

from __future__ import annotations

import os

import msgspec

from flota.store.etcd_json import (
    DeleteRange,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
    LeaseTimeToLive,
    Put,
    Range,
    Request,
    StoreAnswer,
    Txn,
    decode,
    encode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flota.store.kv import KeyValueStore

    Route = tuple[type[Request], Callable[[Any, float], StoreAnswer | bytes]]

# gRPC's codes as etcd's gateway turns them into HTTP's.
STATUS = {3: 400, 5: 404, 8: 429, 9: 400, 11: 400, 16: 401}
FACTS = {
    "/version": b'{"etcdserver":"3.4.0","etcdcluster":"3.4.0"}',
    "/health": b'{"health":"true"}',
}


class Routes:
    def __init__(self, store: KeyValueStore, url: str) -> None:
        self._store = store
        self._url = url
        lease: dict[str, Route] = {
            "revoke": (LeaseRevoke, lambda ask, _: store.revoke(ask)),
            "timetolive": (LeaseTimeToLive, store.time_to_live),
            "leases": (Request, lambda _, __: store.leases()),
        }
        self._routes: dict[str, Route] = {
            "/v3/kv/range": (Range, lambda ask, _: store.range(ask)),
            "/v3/kv/put": (Put, lambda ask, _: store.put(ask)),
            "/v3/kv/deleterange": (DeleteRange, lambda ask, _: store.delete_range(ask)),
            "/v3/kv/txn": (Txn, lambda ask, _: store.txn(ask)),
            "/v3/lease/grant": (LeaseGrant, lambda ask, now: store.grant(ask, _fresh_id(), now)),
            "/v3/lease/keepalive": (LeaseKeepAlive, lambda ask, now: streamed(store.keep_alive(ask, now))),
            **{f"/v3/lease/{name}": route for name, route in lease.items()},
            **{f"/v3/kv/lease/{name}": route for name, route in lease.items()},
            "/v3/maintenance/status": (Request, lambda _, __: self._status()),
            "/v3/cluster/member/list": (Request, lambda _, __: self._members()),
        }

    def answer(self, method: str, path: str, body: bytes, now: float) -> bytes:
        """Raises Refusal, LookupError for a path that is none, and msgspec's errors for a body that is none."""
        if method == "GET":
            return FACTS[path]
        kind, handle = self._routes[path.replace("/v3beta/", "/v3/", 1)]
        answer = handle(decode(body, kind), now)
        return answer if isinstance(answer, bytes) else encode(answer)

    def _status(self) -> bytes:
        status = {"header": self._store.header(), "version": "3.4.0", "leader": "1", "raftTerm": "1"}
        return msgspec.json.encode(status)

    def _members(self) -> bytes:
        member = {"ID": "1", "name": "flota", "clientURLs": [self._url]}
        return msgspec.json.encode({"header": self._store.header(), "members": [member]})


def streamed(answer: StoreAnswer) -> bytes:
    """etcd's gateway wraps what it streams."""
    return b'{"result":' + encode(answer) + b"}"


def error_text(code: int, words: str) -> bytes:
    return msgspec.json.encode({"error": words, "message": words, "code": code})


def _fresh_id() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 1 or 1
