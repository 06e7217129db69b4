"""The key-value store itself, as etcd defines it: revisions, leases, transactions. Pure: time comes in as a number.

Everything that changes keys returns through `changes`: what watchers are told, in order, one revision at a time. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from flota.store.deadlines import Deadlines
from flota.store.entries import Change, Entry
from flota.store.etcd_json import (
    Compare,
    DeleteAnswer,
    DeleteRange,
    Header,
    LeaseAnswer,
    LeaseGrant,
    LeaseId,
    LeaseKeepAlive,
    LeaseRevoke,
    LeasesAnswer,
    LeaseTimeToLive,
    Operation,
    OperationAnswer,
    Put,
    PutAnswer,
    Range,
    RangeAnswer,
    Refusal,
    TimeToLiveAnswer,
    Txn,
    TxnAnswer,
)

INVALID, NOT_FOUND, EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE = 3, 5, 8, 9, 11
SHORTEST_LEASE = 2
MOST_KEYS = 1 << 17
MOST_LEASES = 1 << 15
TARGETS = ("VERSION", "CREATE", "MOD", "VALUE", "LEASE")
RESULTS = ("EQUAL", "GREATER", "LESS", "NOT_EQUAL")
SORT_TARGETS = ("KEY", "VERSION", "CREATE", "MOD", "VALUE")
SORT_ORDERS = ("NONE", "ASCEND", "DESCEND")


class Lease:
    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self.keys: set[bytes] = set()


class KeyValueStore:
    """`changes` collects what watchers must hear; whoever calls takes them away with `take_changes`."""

    def __init__(self, member_id: int = 1) -> None:
        self.revision = 1
        self.member_id = str(member_id)
        self._entries: dict[bytes, Entry] = {}
        self._order: list[bytes] = []
        self._leases: dict[int, Lease] = {}
        self._ends = Deadlines()
        self._changes: list[Change] = []

    def take_changes(self) -> list[Change]:
        changes, self._changes = self._changes, []
        return changes

    @property
    def deadline(self) -> float | None:
        """When the next lease ends."""
        return self._ends.first

    def header(self) -> Header:
        return Header(cluster_id="1", member_id=self.member_id, revision=str(self.revision), raft_term="1")

    def range(self, ask: Range) -> RangeAnswer:
        _check_key(ask.key)
        if ask.revision > self.revision:
            raise Refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
        if 0 < ask.revision < self.revision:
            raise Refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
        found = [self._entries[key] for key in self._keys_between(ask.key, ask.range_end)]
        count = str(len(found)) if found else ""
        if ask.count_only:
            return RangeAnswer(self.header(), count=count)
        found = _sorted(found, _name(ask.sort_target, SORT_TARGETS), _name(ask.sort_order, SORT_ORDERS))
        more = 0 < ask.limit < len(found)
        shown = found[: ask.limit] if ask.limit > 0 else found
        return RangeAnswer(self.header(), [entry.answer(keys_only=ask.keys_only) for entry in shown], more, count)

    def put(self, ask: Put) -> PutAnswer:
        self._check_put(ask)
        self.revision += 1
        before = self._put(ask, self.revision)
        return PutAnswer(self.header(), before.answer() if before and ask.prev_kv else None)

    def delete_range(self, ask: DeleteRange) -> DeleteAnswer:
        _check_key(ask.key)
        deleted = self._delete(self._keys_between(ask.key, ask.range_end), self.revision + 1)
        self.revision += bool(deleted)
        return self._deleted(deleted, ask)

    def txn(self, ask: Txn) -> TxnAnswer:
        """All of it or nothing: checked as a whole before anything is changed; one revision for all changes."""
        self._check_operations(ask.success)
        self._check_operations(ask.failure)
        succeeded = all(self._holds(compare) for compare in ask.compare)
        operations = ask.success if succeeded else ask.failure
        for operation in operations:
            if operation.request_put:
                self._check_put(operation.request_put)
        changed = len(self._changes)
        before = self.revision
        answers = [self._operate(operation, before + 1) for operation in operations]
        self.revision = before + (len(self._changes) > changed)
        return TxnAnswer(self.header(), succeeded, answers)

    def grant(self, ask: LeaseGrant, fresh_id: int, now: float) -> LeaseAnswer:
        """`fresh_id` is used when the client leaves the choice to us."""
        number = ask.id or fresh_id
        if number in self._leases:
            raise Refusal(FAILED_PRECONDITION, "etcdserver: lease already exists")
        if len(self._leases) >= MOST_LEASES:
            raise Refusal(EXHAUSTED, "etcdserver: too many leases")
        if not 0 < ask.ttl <= 9_000_000_000:
            raise Refusal(OUT_OF_RANGE, "etcdserver: too large lease TTL")
        ttl = max(ask.ttl, SHORTEST_LEASE)
        self._leases[number] = Lease(ttl)
        self._ends[number] = now + ttl
        return LeaseAnswer(self.header(), str(number), str(ttl))

    def keep_alive(self, ask: LeaseKeepAlive, now: float) -> LeaseAnswer:
        lease = self._leases.get(ask.id)
        if lease is None:
            return LeaseAnswer(self.header(), str(ask.id))
        self._ends[ask.id] = now + lease.ttl
        return LeaseAnswer(self.header(), str(ask.id), str(lease.ttl))

    def time_to_live(self, ask: LeaseTimeToLive, now: float) -> TimeToLiveAnswer:
        lease = self._leases.get(ask.id)
        if lease is None:
            return TimeToLiveAnswer(self.header(), str(ask.id), "-1")
        keys = sorted(lease.keys) if ask.keys else []
        left = max(0, int(self._ends[ask.id] - now))
        return TimeToLiveAnswer(self.header(), str(ask.id), str(left) if left else "", str(lease.ttl), keys)

    def leases(self) -> LeasesAnswer:
        """As etcd lists them: the one that ends first comes first."""
        numbers = sorted(self._leases, key=self._ends.__getitem__)
        return LeasesAnswer(self.header(), [LeaseId(str(number)) for number in numbers])

    def revoke(self, ask: LeaseRevoke) -> LeaseAnswer:
        if ask.id not in self._leases:
            raise Refusal(NOT_FOUND, "etcdserver: requested lease not found")
        self._end_lease(ask.id)
        return LeaseAnswer(self.header())

    def shorten(self, number: int, end: float) -> None:
        """Let a lease end then, if it is not renewed before."""
        if number in self._leases:
            self._ends[number] = min(end, self._ends[number])

    def expire(self, now: float) -> None:
        """End the leases whose time is over; their keys go with them."""
        for number in self._ends.take_due(now):
            self._end_lease(number)

    def _end_lease(self, number: int) -> None:
        deleted = self._delete(sorted(self._leases[number].keys), self.revision + 1)
        self.revision += bool(deleted)
        del self._leases[number]
        self._ends.remove(number)

    def _put(self, ask: Put, revision: int) -> Entry | None:
        before = self._entries.get(ask.key)
        created, version = (before.created, before.version + 1) if before else (revision, 1)
        after = Entry(ask.key, ask.value, created, revision, version, ask.lease)
        if before is None:
            insort(self._order, ask.key)
        elif before.lease:
            self._leases[before.lease].keys.discard(ask.key)
        if ask.lease:
            self._leases[ask.lease].keys.add(ask.key)
        self._entries[ask.key] = after
        self._note(revision, ask.key, after, before)
        return before

    def _note(self, revision: int, key: bytes, after: Entry | None, before: Entry | None) -> None:
        """Watchers are told what a key was before the revision, also when one transaction touches it twice."""
        if before and before.modified == revision:
            before = next(one.before for one in self._changes if one.key == key and one.revision == revision)
        self._changes.append(Change(revision, key, after, before))

    def _delete(self, keys: list[bytes], revision: int) -> list[Entry]:
        deleted = []
        for key in keys:
            before = self._entries.pop(key)
            del self._order[bisect_left(self._order, key)]
            if before.lease:
                self._leases[before.lease].keys.discard(key)
            self._note(revision, key, None, before)
            deleted.append(before)
        return deleted

    def _deleted(self, entries: list[Entry], ask: DeleteRange) -> DeleteAnswer:
        before = [entry.answer() for entry in entries] if ask.prev_kv else []
        return DeleteAnswer(self.header(), str(len(entries)) if entries else "", before)

    def _operate(self, operation: Operation, revision: int) -> OperationAnswer:
        """One step of a transaction, whose changes all carry the same revision."""
        if operation.request_put:
            ask = operation.request_put
            before = self._put(ask, revision)
            self.revision = revision
            return OperationAnswer(
                response_put=PutAnswer(self.header(), before.answer() if before and ask.prev_kv else None)
            )
        if operation.request_delete_range:
            gone = operation.request_delete_range
            deleted = self._delete(self._keys_between(gone.key, gone.range_end), revision)
            self.revision = revision if deleted else self.revision
            return OperationAnswer(response_delete_range=self._deleted(deleted, gone))
        return OperationAnswer(response_range=self.range(operation.request_range or Range()))

    def _keys_between(self, key: bytes, end: bytes) -> list[bytes]:
        """One key without an end; all from the key on when the end is a zero byte."""
        if not end:
            return [key] if key in self._entries else []
        first = bisect_left(self._order, key)
        last = len(self._order) if end == b"\0" else bisect_left(self._order, end)
        return self._order[first:last]

    def _holds(self, compare: Compare) -> bool:
        entry = self._entries.get(compare.key) or Entry(compare.key, b"", 0, 0, 0, 0)
        target = _name(compare.target, TARGETS)
        result = _name(compare.result, RESULTS)
        if target == "VALUE" and not entry.version:
            return False  # a key that is not there has no value to compare
        have, want = {
            "VERSION": (entry.version, compare.version),
            "CREATE": (entry.created, compare.create_revision),
            "MOD": (entry.modified, compare.mod_revision),
            "VALUE": (entry.value, compare.value),
            "LEASE": (entry.lease, compare.lease),
        }[target]
        if result in ("EQUAL", "NOT_EQUAL"):
            return (have == want) is (result == "EQUAL")
        return bool(have > want if result == "GREATER" else have < want)  # type: ignore[operator]

    def _check_put(self, ask: Put) -> None:
        _check_key(ask.key)
        if ask.lease and ask.lease not in self._leases:
            raise Refusal(NOT_FOUND, "etcdserver: requested lease not found")
        if len(self._entries) >= MOST_KEYS and ask.key not in self._entries:
            raise Refusal(EXHAUSTED, "etcdserver: mvcc: database space exceeded")

    def _check_operations(self, operations: list[Operation]) -> None:
        put = [operation.request_put.key for operation in operations if operation.request_put]
        gone = [operation.request_delete_range for operation in operations if operation.request_delete_range]
        if len(put) != len(set(put)) or any(_covers(ask, key) for ask in gone for key in put):
            raise Refusal(INVALID, "etcdserver: duplicate key given in txn request")
        for operation in operations:
            ask = operation.request_put or operation.request_delete_range or operation.request_range
            _check_key(ask.key if ask else b"")


def _check_key(key: bytes) -> None:
    if not key:
        raise Refusal(INVALID, "etcdserver: key is not provided")


def _covers(ask: DeleteRange, key: bytes) -> bool:
    """As etcd checks a transaction: there an end of one zero byte is not taken for `all that follows`."""
    return key == ask.key if not ask.range_end else ask.key <= key < ask.range_end


def _name(word: str | int, names: tuple[str, ...]) -> str:
    """An enumeration's value, given by name or number as JSON allows."""
    if isinstance(word, int) and 0 <= word < len(names):
        return names[word]
    if word in names:
        return str(word)
    raise Refusal(INVALID, f"unknown value {word}")


def _sorted(entries: list[Entry], target: str, order: str) -> list[Entry]:
    if order == "NONE" and target == "KEY":
        return entries
    fields = {"KEY": "key", "VERSION": "version", "CREATE": "created", "MOD": "modified", "VALUE": "value"}
    return sorted(entries, key=lambda entry: getattr(entry, fields[target]), reverse=order == "DESCEND")
