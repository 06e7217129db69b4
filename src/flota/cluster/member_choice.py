"""With --masters, the nodes first join at the embedded master: the first that can run etcd become its members.

Each offers an address. When there are enough, one node writes the list, which never changes again. Then all nodes use
etcd, as if the list had been in --master. The embedded master stays, for nodes that join later. If its host is lost and
comes back, it has forgotten the list; the members write it again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from flota.errors import BadMemberList
from flota.job.nodes import Place
from flota.store.client_connection import Lost
from flota.store.decoding import BadMessage, decode_json
from flota.store.etcd_json import (
    Compare,
    KeyValue,
    LeaseAnswer,
    LeaseGrant,
    Operation,
    Put,
    Range,
    Refusal,
    StoreAnswer,
    StoreRequest,
    Txn,
    TxnAnswer,
)
from flota.store.keys import end_of

LIST, OFFERS = b"/flota/members", b"/flota/member_offers/"
INTERVAL = 0.2  # seconds between looks while there is no list
REPEAT = 1.0  # seconds between looks whether the master still has the list
OFFER_TIME = 3  # seconds that an offer stays without being renewed: its node may be gone
LAST_PORT = 65535

Ask = Callable[[StoreRequest, Callable[[StoreAnswer | Refusal | Lost], None]], object]


class MemberChoice:
    """`own`: what this node offers, None if it cannot run etcd. `places`: the members, once they are known; with
    `other_list`, the master has other ones. Call `on_time` at the `deadline`. Pure.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float], name: str, count: int, own: Place | None) -> None:
        self.places: tuple[Place, ...] = ()
        self.offers = 0
        self.trouble = ""  # why the last request was not answered
        self.refusal: Refusal | None = None  # of the last request
        self.other_list = False
        self.deadline: float | None = 0.0
        self._ask, self._clock, self._asking = ask, clock, False
        self._key, self._count, self._own = OFFERS + name.encode(), count, own

    def on_time(self, now: float) -> None:
        if self.deadline is None or now < self.deadline:
            return
        if self.places:
            self._send(_write(self.places), self._on_repeated)
        elif self._own:
            # A new lease with each look is simpler than one that is renewed.
            self._send(LeaseGrant(ttl=OFFER_TIME), self._on_lease)
        else:
            self._look([])

    def _send(self, request: StoreRequest, then: Callable[[StoreAnswer], None]) -> None:
        def on_answer(answer: StoreAnswer | Refusal | Lost) -> None:
            self._asking = False
            self.trouble = answer.why if isinstance(answer, Lost) else ""
            self.refusal = answer if isinstance(answer, Refusal) else None
            if isinstance(answer, StoreAnswer):
                then(answer)
            if not self._asking:
                self.deadline = self._clock() + (REPEAT if self.places else INTERVAL)

        self._asking, self.deadline = True, None
        self._ask(request, on_answer)

    def _on_lease(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, LeaseAnswer)
        assert self._own is not None
        put = Put(key=self._key, value=msgspec.json.encode(self._own), lease=int(answer.id))
        self._look([Operation(request_put=put)])

    def _look(self, first: list[Operation]) -> None:
        members, offers = Range(key=LIST), Range(key=OFFERS, range_end=end_of(OFFERS))
        parts = [*first, Operation(request_range=members), Operation(request_range=offers)]
        self._send(Txn(success=parts), self._on_look)

    def _on_look(self, answer: StoreAnswer) -> None:
        members, offers = _ranges(answer, 2)
        if members:
            self.places = read_list(members[0].value)
            return
        found = first_offers(offers)
        self.offers = len(found)
        if len(found) >= self._count:
            # Another node may have been first: look again at once.
            self._send(_write(found[: self._count]), lambda _: self._look([]))

    def _on_repeated(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, TxnAnswer)
        if not answer.succeeded:
            [kept] = _ranges(answer, 1)
            self.other_list = bool(kept) and read_list(kept[0].value) != self.places


def _ranges(answer: StoreAnswer, count: int) -> list[list[KeyValue]]:
    """What was found under each key that was asked for. A store that answers less has found nothing."""
    assert isinstance(answer, TxnAnswer)
    found = [part.response_range.kvs for part in answer.responses if part.response_range]
    return [*found, *([] for _ in range(count))][:count]


def _write(places: tuple[Place, ...]) -> Txn:
    """Write the list if there is none; otherwise read it."""
    free = Compare(key=LIST, target="CREATE", create_revision=0)
    put = Operation(request_put=Put(key=LIST, value=msgspec.json.encode(places)))
    return Txn(compare=[free], success=[put], failure=[Operation(request_range=Range(key=LIST))])


def first_offers(entries: list[KeyValue]) -> tuple[Place, ...]:
    """In the order in which the nodes came. An offer that is not an address does not count."""
    found: list[Place] = []
    for entry in sorted(entries, key=lambda one: int(one.create_revision)):
        try:
            found += read_list(b"[%b]" % entry.value)
        except BadMemberList:
            continue
    return tuple(dict.fromkeys(found))


def read_list(data: bytes) -> tuple[Place, ...]:
    try:
        pairs = decode_json(data, list[tuple[str, int]])
    except BadMessage:
        raise BadMemberList from None
    if not pairs or not all(host and host.isprintable() and 0 < port < LAST_PORT for host, port in pairs):
        raise BadMemberList
    return tuple(Place(host, port) for host, port in pairs)
