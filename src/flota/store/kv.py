"""The key-value store of the embedded master, with etcd's revisions, leases and transactions. Time is a parameter.

All changes of keys are collected as events for the watchers, in the order of their revisions. Pure.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

from flota.store import etcd_json as etcd
from flota.store.deadlines import Deadlines
from flota.values import NamedTuple

SHORTEST_LEASE = 2
LONGEST_LEASE = 9_000_000_000
MOST_KEYS = 1 << 17
MOST_LEASES = 1 << 15


class Lease(NamedTuple):
    ttl: int
    keys: set[bytes]


class KeyValueStore:
    """`new_id`: makes the id of a lease if the client has not chosen one."""

    def __init__(self, new_id: Callable[[], int]) -> None:
        self.revision = 1
        self._new_id = new_id
        self._entries: dict[bytes, etcd.KeyValue] = {}
        self._order: list[bytes] = []
        self._leases: dict[int, Lease] = {}
        self._ends = Deadlines()
        self._events: list[etcd.Event] = []
        self._handlers: dict[type[etcd.StoreRequest], Callable[[Any, float], etcd.StoreAnswer]] = {
            etcd.Range: lambda request, _: self._range(request),
            etcd.Put: lambda request, _: self._put_one(request),
            etcd.DeleteRange: lambda request, _: self._delete_range(request),
            etcd.Txn: lambda request, _: self._txn(request),
            etcd.LeaseGrant: self._grant,
            etcd.LeaseKeepAlive: self._keep_alive,
            etcd.LeaseRevoke: lambda request, _: self._revoke(request),
        }

    def answer(self, request: etcd.StoreRequest, now: float) -> etcd.StoreAnswer:
        """Raises Refusal."""
        return self._handlers[type(request)](request, now)

    def header(self) -> etcd.Header:
        return etcd.Header(str(self.revision))

    def take_events(self) -> list[etcd.Event]:
        """The changes since the last call."""
        events, self._events = self._events, []
        return events

    @property
    def deadline(self) -> float | None:
        """When the next lease expires."""
        return self._ends.first

    def expire(self, now: float) -> None:
        """Expire leases, and delete their keys."""
        for number in self._ends.take_due(now):
            self._end_lease(number)

    def shorten(self, number: int, end: float) -> None:
        """Let a lease expire at `end` at the latest, unless it is renewed."""
        if number in self._leases:
            self._ends[number] = min(end, self._ends[number])

    def _range(self, request: etcd.Range) -> etcd.RangeAnswer:
        _check_key(request.key)
        found = [self._entries[key] for key in self._keys_between(request.key, request.range_end)]
        return etcd.RangeAnswer(self.header(), found, etcd.digits(len(found)))

    def _put_one(self, request: etcd.Put) -> etcd.StoreAnswer:
        self._check_put(request)
        self.revision += 1
        self._put(request, self.revision)
        return etcd.StoreAnswer(self.header())

    def _delete_range(self, request: etcd.DeleteRange) -> etcd.DeleteAnswer:
        _check_key(request.key)
        keys = self._keys_between(request.key, request.range_end)
        self._delete(keys)
        return etcd.DeleteAnswer(self.header(), etcd.digits(len(keys)))

    def _txn(self, request: etcd.Txn) -> etcd.TxnAnswer:
        """All or nothing: checked before anything is changed. All changes have the same revision."""
        _check_operations(request.success)
        _check_operations(request.failure)
        succeeded = all(self._holds(compare) for compare in request.compare)
        operations = request.success if succeeded else request.failure
        for operation in operations:
            if operation.request_put:
                self._check_put(operation.request_put)
        revision = self.revision + 1
        answers = [self._operate(operation, revision) for operation in operations]
        return etcd.TxnAnswer(self.header(), succeeded, answers)

    def _operate(self, operation: etcd.Operation, revision: int) -> etcd.OperationAnswer:
        if operation.request_put:
            self._put(operation.request_put, revision)
            self.revision = revision
            return etcd.OperationAnswer(response_put=etcd.StoreAnswer(self.header()))
        return etcd.OperationAnswer(response_range=self._range(operation.request_range or etcd.Range()))

    def _holds(self, compare: etcd.Compare) -> bool:
        entry = self._entries.get(compare.key)
        if compare.target == "CREATE":
            return int(entry.create_revision if entry else 0) == compare.create_revision
        return entry is not None and entry.value == compare.value  # a missing key has no value, not even an empty one

    def _grant(self, request: etcd.LeaseGrant, now: float) -> etcd.LeaseAnswer:
        number = request.id or self._new_id()
        if number in self._leases:
            raise etcd.Refusal(etcd.FAILED_PRECONDITION, "etcdserver: lease already exists")
        if len(self._leases) >= MOST_LEASES:
            raise etcd.Refusal(etcd.EXHAUSTED, "etcdserver: too many leases")
        if not 0 < request.ttl <= LONGEST_LEASE:
            raise etcd.Refusal(etcd.OUT_OF_RANGE, "etcdserver: too large lease TTL")
        ttl = max(request.ttl, SHORTEST_LEASE)
        self._leases[number] = Lease(ttl, set())
        self._ends[number] = now + ttl
        return etcd.LeaseAnswer(self.header(), str(number), str(ttl))

    def _keep_alive(self, request: etcd.LeaseKeepAlive, now: float) -> etcd.LeaseAnswer:
        lease = self._leases.get(request.id)
        if lease is None:
            return etcd.LeaseAnswer(self.header(), str(request.id))
        self._ends[request.id] = now + lease.ttl
        return etcd.LeaseAnswer(self.header(), str(request.id), str(lease.ttl))

    def _revoke(self, request: etcd.LeaseRevoke) -> etcd.LeaseAnswer:
        if request.id not in self._leases:
            raise etcd.Refusal(etcd.NOT_FOUND, "etcdserver: requested lease not found")
        self._end_lease(request.id)
        return etcd.LeaseAnswer(self.header())

    def _end_lease(self, number: int) -> None:
        self._delete(sorted(self._leases[number].keys))
        del self._leases[number]
        self._ends.remove(number)

    def _put(self, request: etcd.Put, revision: int) -> None:
        key, before = request.key, self._entries.get(request.key)
        if before is None:
            insort(self._order, key)
        else:
            self._detach(before)
        if request.lease:
            self._leases[request.lease].keys.add(key)
        self._entries[key] = etcd.KeyValue(
            key=key,
            create_revision=before.create_revision if before else str(revision),
            mod_revision=str(revision),
            version=str(int(before.version) + 1 if before else 1),
            value=request.value,
            lease=etcd.digits(request.lease),
        )
        self._events.append(etcd.Event(kv=self._entries[key]))

    def _delete(self, keys: list[bytes]) -> None:
        self.revision += bool(keys)
        for key in keys:
            self._detach(self._entries.pop(key))
            del self._order[bisect_left(self._order, key)]
            self._events.append(etcd.Event(type="DELETE", kv=etcd.KeyValue(key=key, mod_revision=str(self.revision))))

    def _detach(self, entry: etcd.KeyValue) -> None:
        if entry.lease != etcd.ZERO:
            self._leases[int(entry.lease)].keys.discard(entry.key)

    def _keys_between(self, key: bytes, end: bytes) -> list[bytes]:
        """Without `end` a single key; with a zero byte as `end`, all keys from `key` on."""
        if not end:
            return [key] if key in self._entries else []
        first = bisect_left(self._order, key)
        last = len(self._order) if end == b"\0" else bisect_left(self._order, end)
        return self._order[first:last]

    def _check_put(self, request: etcd.Put) -> None:
        _check_key(request.key)
        if request.lease and request.lease not in self._leases:
            raise etcd.Refusal(etcd.NOT_FOUND, "etcdserver: requested lease not found")
        if len(self._entries) >= MOST_KEYS and request.key not in self._entries:
            raise etcd.Refusal(etcd.EXHAUSTED, "etcdserver: mvcc: database space exceeded")


def _check_operations(operations: list[etcd.Operation]) -> None:
    put = [operation.request_put.key for operation in operations if operation.request_put]
    if len(put) != len(set(put)):
        raise etcd.Refusal(etcd.INVALID, "etcdserver: duplicate key given in txn request")
    for operation in operations:
        request = operation.request_put or operation.request_range
        _check_key(request.key if request else b"")


def _check_key(key: bytes) -> None:
    if not key:
        raise etcd.Refusal(etcd.INVALID, "etcdserver: key is not provided")
