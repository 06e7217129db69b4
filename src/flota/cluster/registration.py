"""Keeps a node registered in the store: its lease, its record, its watch of the coordinator's keys, and these keys
themselves if this node is the coordinator.

Written as a desired state, not as steps: it knows what should be in the store, and requests what is missing, one
request at a time. A lost answer, lease, watch or member only means that something is missing again. Pure.
"""

from collections.abc import Callable
from typing import Any, TypeGuard

from flota.store.client import Client, ClientWatch
from flota.store.client_connection import Lost
from flota.store.etcd_json import (
    EXHAUSTED,
    OUT_OF_RANGE,
    TEMPORARY,
    DeleteRange,
    KeyValue,
    LeaseAnswer,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
    NotAStore,
    Range,
    RangeAnswer,
    Refusal,
    StoreAnswer,
    StoreRequest,
    TxnAnswer,
    WatchAnswer,
    WatchCreate,
)
from flota.store.keys import Keys, apply, end_of, node_of

WATCH_RETRY = 0.02  # seconds before a lost watch is requested again
RETRY = 0.2  # seconds before a request that was lost is sent again
FIRST_RETRY = 0.01  # seconds, doubled each time, as long as no store has answered: all nodes of a job start together
MAX_SILENCE = 0.5  # of the lease: if the store was silent for longer, it may be why nodes lost their leases
FULL_TIME = 2.0  # seconds without space until all nodes are made to notice
FINAL_LEASE = 60  # seconds that the final job state stays in the store, for nodes that were disconnected


class Registration:
    """The owner calls `reconcile` when `deadline` has passed. `changed`: there is something new for the owner."""

    def __init__(
        self, client: Client, keys: Keys, name: str, ttl: int, *, may_coordinate: bool, clock: Callable[[], float]
    ) -> None:
        self.job_states: list[bytes] = []  # received, in order, until the owner takes them: none is skipped
        self.found: bytes | None = None  # the job state that was there when this node first joined
        self.records: dict[str, KeyValue] | None = None  # known to the coordinator only
        self.is_coordinator = False
        self.refusal: Refusal | None = None  # one that a retry will not change
        self.answered_at: float | None = None
        self.silent_since: float | None = None  # when the first unanswered request was sent
        self.failing_since: float | None = None  # when the first request failed that has not succeeded since
        self.trusted_from = 0.0  # from then on a missing record means that its node is lost
        self.trouble = ""  # why the last request was lost
        self.lease = 0
        self.leaving = self.changed = self._asking = self._coordinator_taken = False
        self._client, self._keys, self._name, self._ttl = client, keys, name, ttl
        self._may_coordinate, self._clock = may_coordinate, clock
        self._record: bytes | None = None
        self._has_joined = False  # at least once
        self._joined = False  # the current record is in the store
        self._is_full = False  # the store has no space for writes
        self._unwritten: bytes | None = None  # the coordinator's job state, to be written
        self._written: bytes | None = None  # and the one that was written last
        self._is_final, self._final_lease = False, 0  # the last job state has a lease of its own
        self._rewrite_after = 0  # lease renewals until everything is written again
        self._coordinator_since = 0  # the revision at which this node became the coordinator
        self._state_watch: ClientWatch | None = None
        self._watching = False  # the store has confirmed that watch
        self._knows_coordinator = False  # and what was written before it has been read
        self._record_watch: ClientWatch | None = None
        self._renew_at: float | None = None
        self._retry_at: float | None = None
        self._retry_delay = FIRST_RETRY

    def publish_record(self, record: bytes) -> None:
        if record != self._record:
            self._record = record
            self._joined = False
            self.reconcile()

    def publish_state(self, job_state: bytes, *, final: bool = False) -> None:
        """Publish a job state as the coordinator. The final one outlives its coordinator."""
        self._unwritten, self._is_final = job_state, final
        self.reconcile()

    def leave(self) -> None:
        self.leaving = True
        self.reconcile()

    @property
    def gone(self) -> bool:
        return self.leaving and not self.lease and not self._asking

    @property
    def deadline(self) -> float | None:
        if self._asking:
            return None
        return self._renew_at if self._retry_at is None else self._retry_at

    def reconcile(self) -> None:
        """Request the first thing that is missing."""
        now, keys = self._clock(), self._keys
        if self._asking or self.refusal or (self._retry_at is not None and now < self._retry_at):
            return
        self._retry_at = None
        if self.leaving:
            if self.lease:
                self._ask(LeaseRevoke(id=self.lease), lambda _: self._lose_lease())
        elif (record := self._record) is None:
            return
        elif not self.lease:
            self._ask(LeaseGrant(ttl=self._ttl), self._on_granted)
        elif self._renew_at is not None and now >= self._renew_at:
            self._ask(LeaseKeepAlive(id=self.lease), self._on_renewed)
        elif self._is_full and self._coordinator_taken and now >= (self.failing_since or now) + FULL_TIME:
            # A full etcd does delete. Then every node wants to coordinate, notices that etcd is full, and ends in time.
            self._ask(DeleteRange(key=keys.coordinator), lambda _: self._forget_coordinator())
        elif self._state_watch is None:
            # Before the record: when thousands of nodes join, all are watching when the roster is published.
            watch = WatchCreate(key=keys.coordinator, range_end=end_of(keys.coordinator))
            self._state_watch = self._client.watch(watch, self._on_coordinator_event, self.lease)
        elif not self._joined and self._watching:
            request = keys.put_record(self._name, record, self.lease, reads=not self._knows_coordinator)
            self._ask(request, lambda answer: self._on_joined(answer, record))
        else:
            self._reconcile_coordinator()

    def _reconcile_coordinator(self) -> None:
        """The same for the coordinator's keys. If nothing is missing, the store has done all that was requested."""
        keys = self._keys
        if self._may_coordinate and not self._coordinator_taken:
            self._ask(keys.take_coordinator(self._name, self.lease), self._read_coordinator)
        elif self.is_coordinator and self._record_watch is None:
            self._ask(Range(key=keys.nodes, range_end=end_of(keys.nodes)), self._on_records)
        elif self.is_coordinator and (state := self._unwritten) is not None:
            if self._is_final and not self._final_lease:
                self._ask(LeaseGrant(ttl=FINAL_LEASE), self._on_final_lease_granted)
                return
            request = keys.put_state(state, self._coordinator_since, self._final_lease or self.lease)
            self._ask(request, lambda answer: self._on_state_written(answer, state))
        elif self._joined:
            self._end_failing()

    def _ask(self, request: StoreRequest, then: Callable[[Any], object]) -> None:
        self._asking = True
        sent_at = self._clock()
        self._client.ask(request, lambda answer: self._on_answer(answer, then, sent_at), sent_at)

    # Answers.

    def _on_answer(self, answer: StoreAnswer | Refusal | Lost, then: Callable[[Any], object], sent_at: float) -> None:
        self._asking = False
        if isinstance(answer, Lost):
            self._on_lost(answer.why, sent_at)
            return
        if isinstance(answer, Refusal):
            self._on_refusal(answer)
        else:
            self._note_answer()
            if isinstance(answer, TxnAnswer):
                self._end_failing()
            then(answer)
        self.reconcile()

    def _note_answer(self) -> None:
        now = self._clock()
        if self.answered_at is not None and now - self.answered_at > MAX_SILENCE * self._ttl:
            self._suspend_trust()
        self.answered_at = now
        self.silent_since = None

    def _note_failure(self, why: str, since: float) -> None:
        self.failing_since = since if self.failing_since is None else self.failing_since
        self.trouble = why

    def _end_failing(self) -> None:
        self.failing_since, self._is_full = None, False

    def _suspend_trust(self) -> None:
        """Other nodes may have lost their leases as well: give them time to register again."""
        self.trusted_from = self._clock() + self._ttl

    def _on_lost(self, why: str, sent_at: float) -> None:
        self.silent_since = sent_at if self.silent_since is None else self.silent_since
        self._note_failure(why, sent_at)
        self._rewrite_after = 2  # a lost request may be executed late, and overwrite what was written after it
        self.changed = True
        self._retry_at = self._clock() + (RETRY if self.answered_at is not None else self._retry_delay)
        self._retry_delay = min(2 * self._retry_delay, RETRY)

    def _on_refusal(self, refusal: Refusal) -> None:
        by_proxy = isinstance(refusal, NotAStore) and self.answered_at is not None
        if "lease not found" in refusal.words:
            self._note_answer()
            self._lose_lease()
        elif refusal.code == EXHAUSTED:
            self._note_answer()
            self._note_failure(f"it refuses writes: {refusal.words}", self._clock())
            self._is_full = self._may_coordinate and "space exceeded" in refusal.words
            self.changed = True
            self._retry_at = self._clock() + RETRY
        elif refusal.code in TEMPORARY or by_proxy:
            self._on_lost(refusal.words, self._clock())
        else:
            self.refusal = refusal
            self.changed = True

    def _on_granted(self, answer: LeaseAnswer) -> None:
        self.lease = int(answer.id)
        self._renew_at = self._clock() + self._ttl / 3
        self._joined = False

    def _on_final_lease_granted(self, answer: LeaseAnswer) -> None:
        self._final_lease = int(answer.id)

    def _on_renewed(self, answer: LeaseAnswer) -> None:
        self._renew_at = self._clock() + self._ttl / 3
        if not int(answer.ttl):
            self._lose_lease()
        elif self._rewrite_after:
            self._rewrite_after -= 1
            if not self._rewrite_after:
                self._joined, self._unwritten = False, self._unwritten or self._written

    def _lose_lease(self) -> None:
        """Record, coordinator key and job state are gone with it, and other nodes may have lost theirs as well."""
        self._suspend_trust()
        self.lease = self._final_lease = 0
        self._renew_at = None
        self._forget_coordinator()
        self._close_state_watch()

    def _on_joined(self, answer: TxnAnswer, written: bytes) -> None:
        self._joined = written == self._record and self._state_watch is not None
        if len(answer.responses) > 1:
            self._knows_coordinator = self._state_watch is not None
            self._coordinator_taken = False
            for entry in self._read_coordinator(answer):
                if not self._has_joined and entry.key == self._keys.job_state:
                    self.found = entry.value
            self._has_joined = True

    def _read_coordinator(self, answer: TxnAnswer) -> list[KeyValue]:
        """Process the coordinator's keys in the last part of an answer."""
        found = answer.responses[-1].response_range
        entries = found.kvs if found else []
        for entry in entries:
            self._on_entry(entry)
        return entries

    def _on_records(self, answer: RangeAnswer) -> None:
        self.records = {node_of(entry): entry for entry in answer.kvs}
        nodes, next_revision = self._keys.nodes, int(answer.header.revision) + 1
        watch = WatchCreate(key=nodes, range_end=end_of(nodes), start_revision=next_revision)
        self._record_watch = self._client.watch(watch, self._on_record_event, self.lease)
        self.changed = True

    def _on_state_written(self, answer: TxnAnswer, written: bytes) -> None:
        if self._unwritten is written:
            self._unwritten = None
        if answer.succeeded:
            self._written, self.changed = written, True
            self.job_states.append(written)  # at once: its own watch is one of thousands that get it
        else:
            self._lose_coordinator()

    def _lose_coordinator(self) -> None:
        self.is_coordinator = False
        self.records = self._unwritten = self._written = None
        self._close_record_watch()

    def _forget_coordinator(self) -> None:
        self._lose_coordinator()
        self._coordinator_taken = False

    # Events of the watches.

    def _on_coordinator_event(self, answer: WatchAnswer | Refusal | Lost) -> None:
        if not self._is_alive(answer):
            self._close_state_watch()
        elif answer.created:
            self._watching = True
        for event in answer.events if isinstance(answer, WatchAnswer) else ():
            if event.type != "DELETE":
                self._on_entry(event.kv)
            elif event.kv.key == self._keys.coordinator:
                self._forget_coordinator()
        self.reconcile()

    def _on_entry(self, entry: KeyValue) -> None:
        if entry.key == self._keys.job_state:
            self.job_states.append(entry.value)
            self.changed = True
        elif entry.key == self._keys.coordinator:
            self._coordinator_taken = True
            if entry.value == self._name.encode():  # also when the first answer with it was lost
                self.is_coordinator = True
                self._coordinator_since = int(entry.create_revision)

    def _on_record_event(self, answer: WatchAnswer | Refusal | Lost) -> None:
        if not self._is_alive(answer):
            self._close_record_watch()
        elif self.records is not None:
            apply(answer.events, self.records)
            self.changed = True
        self.reconcile()

    def _is_alive(self, answer: WatchAnswer | Refusal | Lost) -> TypeGuard[WatchAnswer]:
        """Whether the watch continues."""
        if isinstance(answer, WatchAnswer):
            self._note_answer()
            return True
        if isinstance(answer, Refusal) and answer.code != OUT_OF_RANGE:  # which only means that events were missed
            self._on_refusal(answer)
        if isinstance(answer, Lost):
            self._note_failure(answer.why, self._clock())
        self._retry_at = self._clock() + WATCH_RETRY
        self._renew_at = self._clock() if self.lease else None  # or the master would take this node for dead
        return False

    def _close_state_watch(self) -> None:
        """Events are missed from now on: the next request reads the keys again."""
        self._joined = self._watching = self._knows_coordinator = False
        if self._state_watch:
            self._state_watch.close()
            self._state_watch = None

    def _close_record_watch(self) -> None:
        if self._record_watch:
            self._record_watch.close()
            self._record_watch = None
