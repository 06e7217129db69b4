"""Keeps a node present in the store: its lease, its record, its ear to the coordinator, and the coordinator itself if
it falls to it.

Written as wishes, not as steps: it knows what should be in the store, and asks for whatever is missing, one question
at a time, until it is there. A lost answer, lease, watch or member only means that something is missing again. Pure.
"""

from __future__ import annotations

from flota.store.client import Lost
from flota.store.etcd_json import (
    OUT_OF_RANGE,
    KeyValue,
    LeaseAnswer,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
    NotAStore,
    Range,
    RangeAnswer,
    Refusal,
    Request,
    StoreAnswer,
    TxnAnswer,
    WatchAnswer,
    WatchCreate,
)
from flota.store.keys import Keys, apply, end_of, node_of
from flota.store.reachability import Reachability

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from flota.store.client import Client, ClientWatch

SOON = 0.02  # seconds before a lost watch is asked for again
RETRY = 0.2  # seconds before a question that was lost is asked again
ECHO = 60  # seconds that a store keeps a job's last job_state, for whoever was cut off when it came


class Registration:
    """Drive it: call `pursue` when `deadline` has passed. `news` says that something has changed for its owner."""

    def __init__(
        self, client: Client, keys: Keys, name: str, ttl: int, *, may_coordinate: bool, clock: Callable[[], float]
    ) -> None:
        self.reachability = Reachability(ttl)
        self.job_states: list[bytes] = []  # heard, in order, until the owner takes them: none may hide another
        self.found: bytes | None = None  # the job_state that was there when this node first joined
        self.records: dict[str, KeyValue] | None = None  # known to the coordinator only
        self.is_coordinator = False
        self.refusal: Refusal | None = None  # of a kind that asking again will not mend
        self.lease = 0
        self.leaving = self.news = self._asking = self._coordinator_taken = False
        self._client, self._keys, self._name, self._ttl = client, keys, name, ttl
        self._may_coordinate, self._clock = may_coordinate, clock
        self._record: bytes | None = None
        self._has_joined = False  # at least once
        self._joined = False  # the record is in the store as it should be
        self._out: bytes | None = None  # the coordinator's job_state, to be written
        self._said: bytes | None = None  # and as it was written last
        self._is_last, self._echo = False, 0  # the last job_state's own lease
        self._doubts = 0  # renewals until everything is said once more
        self._reign = 0  # the revision at which this node took the coordinator
        self._ear: ClientWatch | None = None
        self._listening = self._knows_coordinator = False  # the store has said so; and what was said before is known
        self._eye: ClientWatch | None = None
        self._renew_at: float | None = None
        self._retry_at: float | None = None

    def publish(self, record: bytes) -> None:
        if record != self._record:
            self._record = record
            self._joined = False
            self.pursue()

    def proclaim(self, job_state: bytes, *, last: bool = False) -> None:
        """As the coordinator: what everybody shall follow. The last one outlives its coordinator."""
        self._out, self._is_last = job_state, last
        self.pursue()

    def leave(self) -> None:
        self.leaving = True
        self.pursue()

    @property
    def gone(self) -> bool:
        return self.leaving and not self.lease and not self._asking

    @property
    def deadline(self) -> float | None:
        if self._asking:
            return None
        return self._renew_at if self._retry_at is None else self._retry_at

    # What is missing.

    def pursue(self) -> None:
        now = self._clock()
        if self._asking or self.refusal or (self._retry_at is not None and now < self._retry_at):
            return
        self._retry_at = None
        if self.leaving:
            if self.lease:
                self._ask(LeaseRevoke(id=self.lease), lambda _: self._lose_lease())
        elif self._record is None:
            return
        elif not self.lease:
            self._ask(LeaseGrant(ttl=self._ttl), self._on_granted)
        elif self._renew_at is not None and now >= self._renew_at:
            self._ask(LeaseKeepAlive(id=self.lease), self._on_renewed)
        elif self._ear is None:
            self._listen()
        elif not self._joined and self._listening:
            self._join(self._record)
        elif self._may_coordinate and not self._coordinator_taken:
            self._ask(self._keys.campaigning(self._name, self.lease), self._on_campaigned)
        elif self.is_coordinator and self._eye is None:
            self._ask(Range(key=self._keys.nodes, range_end=end_of(self._keys.nodes)), self._on_records)
        elif self.is_coordinator and self._out is not None and self._is_last and not self._echo:
            self._ask(LeaseGrant(ttl=ECHO), self._on_echo_granted)
        elif self.is_coordinator and self._out is not None:
            self._proclaim(self._out)

    def _listen(self) -> None:
        """Before the record is there: when thousands join, the roster then finds all of them listening already."""
        ask = WatchCreate(key=self._keys.coordinator, range_end=end_of(self._keys.coordinator))
        self._ear = self._client.watch(ask, self._on_heard, self.lease)

    def _join(self, record: bytes) -> None:
        ask = self._keys.joining(self._name, record, self.lease, knowing=self._knows_coordinator)
        self._ask(ask, lambda answer: self._on_joined(answer, record))

    def _proclaim(self, job_state: bytes) -> None:
        ask = self._keys.proclaiming(job_state, self._reign, self._echo or self.lease)
        self._ask(ask, lambda answer: self._on_proclaimed(answer, job_state))

    def _ask(self, request: Request, then: Callable[[StoreAnswer], None]) -> None:
        self._asking = True
        asked = self._clock()
        self._client.ask(request, lambda answer: self._on_answer(answer, then, asked), asked)

    # What is answered.

    def _on_answer(
        self, answer: StoreAnswer | Refusal | Lost, then: Callable[[StoreAnswer], None], asked: float
    ) -> None:
        self._asking = False
        if isinstance(answer, Lost):
            self._miss(answer.why, asked)
            return
        if isinstance(answer, Refusal):
            self._on_refusal(answer)
        else:
            self.reachability.record_answer(self._clock())
            then(answer)
        self.pursue()

    def _miss(self, why: str, asked: float) -> None:
        self.reachability.record_loss(why, asked)
        self._doubts = 2  # a question that was lost may be carried out late, over what is said after it
        self.news = True
        self._retry_at = self._clock() + RETRY

    def _on_refusal(self, refusal: Refusal) -> None:
        if "lease not found" in refusal.words:
            self.reachability.record_answer(self._clock())
            self._lose_lease()
        elif refusal.is_temporary or (
            isinstance(refusal, NotAStore) and self.reachability.answered_at is not None
        ):  # a proxy's, by now
            self._miss(refusal.words, self._clock())
        else:
            self.refusal = refusal
            self.news = True

    def _on_granted(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, LeaseAnswer)
        self.lease = int(answer.id)
        self._renew_at = self._clock() + self._ttl / 3
        self._joined = False

    def _on_echo_granted(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, LeaseAnswer)
        self._echo = int(answer.id)

    def _on_renewed(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, LeaseAnswer)
        self._renew_at = self._clock() + self._ttl / 3
        if not int(answer.ttl or 0):
            self._lose_lease()
        elif self._doubts:
            self._doubts -= 1
            if not self._doubts:
                self._joined, self._out = False, self._out or self._said

    def _lose_lease(self) -> None:
        """NodeRecord, coordinator and job_state are gone with it, and others may have lost theirs."""
        self.reachability.suspend_trust(self._clock())
        self.lease = self._echo = 0
        self._joined = False
        self._renew_at = None
        self._depose()
        self._coordinator_taken = False
        self._close_ear()

    def _on_joined(self, answer: StoreAnswer, written: bytes) -> None:
        assert isinstance(answer, TxnAnswer)
        self._joined = written == self._record and self._ear is not None
        if len(answer.responses) > 1:
            self._knows_coordinator = self._ear is not None
            self._coordinator_taken = False
            for entry in (answer.responses[1].response_range or RangeAnswer(answer.header)).kvs:
                self._on_entry(entry)
                if not self._has_joined and entry.key == self._keys.job_state:
                    self.found = entry.value
            self._has_joined = True

    def _on_campaigned(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, TxnAnswer)
        for entry in (answer.responses[-1].response_range or RangeAnswer(answer.header)).kvs:
            self._on_entry(entry)

    def _on_records(self, answer: StoreAnswer) -> None:
        assert isinstance(answer, RangeAnswer)
        self.records = {node_of(entry): entry for entry in answer.kvs}
        ask = WatchCreate(
            key=self._keys.nodes, range_end=end_of(self._keys.nodes), start_revision=int(answer.header.revision) + 1
        )
        self._eye = self._client.watch(ask, self._on_seen, self.lease)
        self.news = True

    def _on_proclaimed(self, answer: StoreAnswer, written: bytes) -> None:
        assert isinstance(answer, TxnAnswer)
        if self._out is written:
            self._out = None
        if answer.succeeded:
            self._said, self.news = written, True
            self.job_states.append(written)  # its own watch is one of thousands that are told
        else:
            self._depose()

    def _depose(self) -> None:
        self.is_coordinator = False
        self.records = self._out = self._said = None
        if self._eye:
            self._eye.close()
            self._eye = None

    # What is heard without asking.

    def _on_heard(self, answer: WatchAnswer | Refusal | Lost) -> None:
        if not self._attend(answer):
            self._close_ear()
        elif answer.created:
            self._listening = True
        for event in answer.events if isinstance(answer, WatchAnswer) else ():
            if event.kv and event.type != "DELETE":
                self._on_entry(event.kv)
            elif event.kv and event.kv.key == self._keys.coordinator:
                self._depose()
                self._coordinator_taken = False
        self.pursue()

    def _on_entry(self, entry: KeyValue) -> None:
        if entry.key == self._keys.job_state:
            self.job_states.append(entry.value)
            self.news = True
        elif entry.key == self._keys.coordinator:
            self._coordinator_taken = True
            if entry.value == self._name.encode():  # also when the answer that said so was lost
                self.is_coordinator = True
                self._reign = int(entry.create_revision)

    def _on_seen(self, answer: WatchAnswer | Refusal | Lost) -> None:
        if not self._attend(answer):
            if self._eye:
                self._eye.close()
                self._eye = None
        elif self.records is not None:
            apply(answer.events, self.records)
            self.news = True
        self.pursue()

    def _attend(self, answer: WatchAnswer | Refusal | Lost) -> TypeGuard[WatchAnswer]:
        """Whether a watch goes on."""
        if not isinstance(answer, WatchAnswer):
            if isinstance(answer, Refusal) and answer.code != OUT_OF_RANGE:  # that one only missed too much
                self._on_refusal(answer)
            self._retry_at = self._clock() + SOON
            self._renew_at = self._clock() if self.lease else None  # the master takes us for dead unless we say so
            return False
        self.reachability.record_answer(self._clock())
        return True

    def _close_ear(self) -> None:
        """What is said from now on is missed: the next question asks for it."""
        self._joined = self._listening = self._knows_coordinator = False
        if self._ear:
            self._ear.close()
            self._ear = None
