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
from flota.values import NamedTuple

LIST, OFFERS = b"/flota/members", b"/flota/member_offers/"
FIRST_INTERVAL, GROWTH = 0.2, 1.5  # seconds between looks while there is no list, and how it grows
REPEAT = 1.0  # seconds between looks whether the master still has the list, and at most between others
OFFER_TIME = 3  # seconds that an offer stays without being renewed: its node may be gone
LAST_PORT = 65535

Clock = Callable[[], float]
Ask = Callable[[StoreRequest, Callable[[StoreAnswer | Refusal | Lost], None]], object]


class MembersOfJob(NamedTuple):
    """The list, or an offer, which has one place."""

    job: str
    places: tuple[Place, ...]


class MemberChoice:
    """`own`: what this node offers, None if it cannot run etcd. `places`: the members, once they are known.
    `other_job`: the id of the job that uses the master. Call `on_time` at the `deadline`. Pure.
    """

    def __init__(
        self, ask: Ask, clock: Callable[[], float], name: str, job: str, count: int, own: Place | None
    ) -> None:
        self.places: tuple[Place, ...] = ()
        self.offers = 0
        self.trouble = ""  # why the last request was not answered
        self.refusal: Refusal | None = None  # of the last request
        self.other_job: str | None = None
        self.other_list = False  # the master has one that is not this job's
        self.deadline: float | None = 0.0
        self._ask, self._clock, self._asking = ask, clock, False
        self._key, self._job, self._count, self._own = OFFERS + name.encode(), job, count, own
        self._interval = FIRST_INTERVAL

    def on_time(self, now: float) -> None:
        if self.deadline is None or now < self.deadline:
            return
        if self.places:
            self._send(self._write(self.places), self._on_repeated)
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
                self._wait()

        self._asking, self.deadline = True, None
        self._ask(request, on_answer)

    def _wait(self) -> None:
        """Once the list is known, only members keep it."""
        if self.places:
            self.deadline = self._clock() + REPEAT if self._own in self.places else None
        else:
            self.deadline = self._clock() + self._interval
            self._interval = min(REPEAT, self._interval * GROWTH)

    def _on_lease(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, LeaseAnswer)
        assert self._own is not None
        put = Put(key=self._key, value=_encode(self._job, (self._own,)), lease=int(answer.id))
        self._look([Operation(request_put=put)])

    def _look(self, first: list[Operation]) -> None:
        members, offers = Range(key=LIST), Range(key=OFFERS, range_end=end_of(OFFERS))
        parts = [*first, Operation(request_range=members), Operation(request_range=offers)]
        self._send(Txn(success=parts), self._on_look)

    def _on_look(self, answer: StoreAnswer) -> None:
        members, offers = _ranges(answer)
        found = read_members(members[0].value) if members else first_offers(offers)
        self.other_job = found.job if found.places and found.job != self._job else None
        if self.other_job is not None:
            return
        if members:
            self.places = found.places
            return
        self.offers = len(found.places)
        if self.offers >= self._count:
            # Another node may have been first: look again at once.
            self._send(self._write(found.places[: self._count]), lambda _: self._look([]))

    def _write(self, places: tuple[Place, ...]) -> Txn:
        """Write the list if there is none; otherwise read it."""
        free = Compare(key=LIST, target="CREATE", create_revision=0)
        put = Operation(request_put=Put(key=LIST, value=_encode(self._job, places)))
        return Txn(compare=[free], success=[put], failure=[Operation(request_range=Range(key=LIST))])

    def _on_repeated(self, answer: StoreAnswer) -> None:
        try:
            lists = [read_members(entry.value) for found in _ranges(answer) for entry in found]
            self.other_list = lists not in ([], [MembersOfJob(self._job, self.places)])
        except BadMemberList:  # the job does not need the master: this must not end it
            self.other_list = True


def _encode(job: str, places: tuple[Place, ...]) -> bytes:
    return msgspec.json.encode((job, places))


def _ranges(answer: StoreAnswer) -> list[list[KeyValue]]:
    """What was found under each key that was asked for."""
    assert isinstance(answer, TxnAnswer)
    return [part.response_range.kvs for part in answer.responses if part.response_range]


def first_offers(entries: list[KeyValue]) -> MembersOfJob:
    """In the order in which the nodes came, but second nodes of a host last: it would take two members along. The first
    decides which job this is. An offer that is not an address does not count."""
    found: list[MembersOfJob] = []
    for entry in sorted(entries, key=lambda one: int(one.create_revision)):
        try:
            found.append(read_members(entry.value))
        except BadMemberList:
            continue
    job = found[0].job if found else ""
    places = [place for offer in found if offer.job == job for place in offer.places[:1]]
    first_of_hosts = {place.host: place for place in reversed(places)}.values()
    return MembersOfJob(job, tuple(dict.fromkeys([*(place for place in places if place in first_of_hosts), *places])))


def read_members(data: bytes) -> MembersOfJob:
    try:
        job, pairs = decode_json(data, tuple[str, list[tuple[str, int]]])
    except BadMessage:
        raise BadMemberList from None
    if not pairs or not all(host and host.isprintable() and 0 < port < LAST_PORT for host, port in pairs):
        raise BadMemberList
    return MembersOfJob(job, tuple(Place(host, port) for host, port in pairs))
