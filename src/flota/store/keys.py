"""The keys of a job in the store, and the requests that change them. Pure."""

from __future__ import annotations

from flota.store.etcd_json import Compare, Event, KeyValue, Operation, Put, Range, Txn
from flota.values import NamedTuple


def keys_of(job: str | None) -> Keys:
    """The keys of a job in a shared store, or with None those of the only job."""
    # With a slash in its name a job could write keys of another job.
    return Keys("/flota/" if job is None else f"/flota/{job.replace('%', '%25').replace('/', '%2F')}/")


class Keys(NamedTuple):
    """`prefix`: unique per job in a shared store."""

    prefix: str

    @property
    def nodes(self) -> bytes:
        return f"{self.prefix}nodes/".encode()

    @property
    def coordinator(self) -> bytes:
        return f"{self.prefix}coordinator".encode()

    @property
    def job_state(self) -> bytes:
        return f"{self.prefix}coordinator/job_state".encode()

    def put_record(self, node: str, record: bytes, lease: int, *, reads: bool) -> Txn:
        """With `reads`, the last part of the answer has the coordinator's keys."""
        put = Operation(request_put=Put(key=self.nodes + node.encode(), value=record, lease=lease))
        coordinator = Operation(request_range=Range(key=self.coordinator, range_end=end_of(self.coordinator)))
        return Txn(success=[put, coordinator] if reads else [put])

    def take_coordinator(self, node: str, lease: int) -> Txn:
        """Become the coordinator if there is none. The last part of the answer names the coordinator."""
        free = Compare(key=self.coordinator, target="CREATE", create_revision=0)
        take = Operation(request_put=Put(key=self.coordinator, value=node.encode(), lease=lease))
        holder = Operation(request_range=Range(key=self.coordinator))
        return Txn(compare=[free], success=[take, holder], failure=[holder])

    def put_state(self, job_state: bytes, since: int, lease: int) -> Txn:
        """Write the job state if this node is still the coordinator that it became at revision `since`."""
        mine = Compare(key=self.coordinator, target="CREATE", create_revision=since)
        put = Operation(request_put=Put(key=self.job_state, value=job_state, lease=lease))
        return Txn(compare=[mine], success=[put])


def puts_record(request: Txn) -> bool:
    """Whether a node joins by this request, in a store of one job."""
    puts = [operation.request_put for operation in request.success if operation.request_put]
    return any(put.key.startswith(keys_of(None).nodes) for put in puts)


def node_of(entry: KeyValue) -> str:
    return entry.key.rpartition(b"/")[2].decode(errors="replace")


def apply(events: list[Event], records: dict[str, KeyValue]) -> None:
    for event in events:
        if event.type == "DELETE":
            records.pop(node_of(event.kv), None)
        else:
            records[node_of(event.kv)] = event.kv


def end_of(prefix: bytes) -> bytes:
    """The end of the range of all keys with this prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
