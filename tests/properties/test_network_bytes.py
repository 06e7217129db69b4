"""Any bytes from the network, on both sides: a value or one error, and nothing else."""

from __future__ import annotations

import os
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from flota.cluster.follower import Follower, Offer
from flota.cluster.job_state import RUNNING, JobState, decode_state, encode_state, take_seat
from flota.cluster.member import Member
from flota.cluster.node_record import encode_record
from flota.cluster.questions import read_record
from flota.cluster.registration import Registration
from flota.cluster.terms import Terms
from flota.store import etcd_json as etcd
from flota.store.keys import keys_of
from flota.store.kv import KeyValueStore
from tests.mutations import damaged
from tests.rosters import ports_of
from tests.surveys import answer_of, record_of

EXAMPLES = 3000 if os.environ.get("FLOTA_SOAK") else 300
KEYS = keys_of("job")
REQUESTS = (
    etcd.Range(key=b"a", range_end=b"b"),
    etcd.Put(key=b"a", value=b"1", lease=7),
    etcd.DeleteRange(key=b"a", range_end=b"b"),
    KEYS.put_record("n0", b"{}", 7, reads=True),
    KEYS.put_state(b"x", 3, 7),
    etcd.LeaseGrant(ttl=5, id=7),
    etcd.LeaseKeepAlive(id=7),
    etcd.LeaseRevoke(id=7),
)
RECORD = record_of(answer=answer_of(3, "steps", b"[]"), requests={"steps": 2})
STATE = JobState(RUNNING, seats=(take_seat("n0", RECORD), take_seat("n1", RECORD)))
STATE_JSON = zlib.decompress(encode_state(STATE))


@settings(max_examples=EXAMPLES)
@given(data=st.data(), request=st.sampled_from(REQUESTS))
def test_a_damaged_request_is_served_or_refused(data, request):
    store = KeyValueStore(lambda: 7)
    store.answer(etcd.LeaseGrant(ttl=100, id=7), 0.0)
    store.answer(etcd.Put(key=b"a", lease=7), 0.0)
    text = etcd.encode(request).replace(b"{}", b'{"key":"YQ=="}')
    before = store.revision
    store.take_events()

    try:
        sent = etcd.encode(store.answer(etcd.decode(data.draw(damaged(text)), type(request)), 1.0))
        refused = False
    except etcd.Refusal as refusal:
        sent = etcd.encode_error(refusal.code, refusal.words)
        refused = True

    assert sent
    assert not refused or (store.revision, store.take_events()) == (before, []), "refused, but applied"


@settings(max_examples=EXAMPLES)
@given(message=st.one_of(st.binary(max_size=200), damaged(encode_record(RECORD))))
def test_a_damaged_record_is_read_or_ignored(message):
    assert read_record("n0", 1, message, 1) is None or encode_record(read_record("n0", 1, message, 1).record)


@settings(max_examples=EXAMPLES)
@given(message=st.one_of(st.binary(max_size=200), damaged(encode_state(STATE)), damaged(STATE_JSON).map(zlib.compress)))
def test_a_damaged_job_state_is_read_or_ignored(message):
    state = decode_state(message)
    assert state is None or encode_state(state)


class DamagedStore:
    """A client whose store damages its answers as `damage` decides."""

    def __init__(self, damage) -> None:
        self.store = KeyValueStore(lambda: 7)
        self.damage = damage
        self.asked = []
        self.watches = []

    def ask(self, request, then, _now) -> None:
        self.asked.append((request, then))

    def watch(self, request, on_answer, _lease=0):
        self.watches.append((etcd.WatchRequest(create_request=request), on_answer))
        return self

    def close(self) -> None:
        pass

    def answer_all(self, now: float) -> None:
        asked, self.asked = self.asked, []
        watches, self.watches = self.watches, []
        for request, then in asked:
            try:
                answer = self.store.answer(request, now)
                status, body = (
                    200,
                    (etcd.encode_streamed if isinstance(request, etcd.STREAMED) else etcd.encode)(answer),
                )
            except etcd.Refusal as refusal:
                status, body = 400, etcd.encode_error(refusal.code, refusal.words)
            then(etcd.read_answer(*self.damage(status, body), request))
        for request, on_answer in watches:
            for answer in (
                etcd.WatchAnswer(self.store.header(), created=True),
                etcd.WatchAnswer(self.store.header(), events=self.store.take_events()),
            ):
                on_answer(etcd.read_answer(*self.damage(200, etcd.encode_streamed(answer)), request))


@settings(max_examples=EXAMPLES // 3)
@given(data=st.data())
def test_a_node_survives_damaged_answers(data):
    def damage(status: int, body: bytes) -> tuple[int, bytes]:
        if data.draw(st.integers(0, 3)):
            return status, body
        return data.draw(st.sampled_from([status, status, 200, 400, 500])), data.draw(damaged(body))

    now = 0.0
    client = DamagedStore(damage)
    follower = Follower("n0", RECORD, join_timeout=60, outage_limit=60)
    registration = Registration(client, KEYS, "n0", 5, may_coordinate=True, clock=lambda: now)
    member = Member(follower, registration, Terms("job", 1, 1, RECORD.frameworks), "here", now)
    for _ in range(12):
        for action in member.advance(now):
            if isinstance(action, Offer):
                follower.offered(ports_of(1, 2, 3, 4), action.round)
        registration.reconcile()
        client.answer_all(now)
        now += data.draw(st.sampled_from([0.0, 0.3, 2.0, 6.0]))
    assert registration.refusal is None or registration.refusal.words.isprintable()
