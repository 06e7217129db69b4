"""Where a job's entries are in a store, and the questions that change them. Pure."""

from __future__ import annotations

from flota.store.etcd_json import Compare, Event, KeyValue, Operation, Put, Range, Txn
from flota.values import NamedTuple


def keys_of(job: str | None) -> Keys:
    """The entries of one of several jobs that share a store, or of the only one."""
    # A slash would put one job's keys among another's.
    return Keys("/flota/" if job is None else f"/flota/{job.replace('%', '%25').replace('/', '%2F')}/")


class Keys(NamedTuple):
    """`prefix` is the job's own where jobs share a store."""

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

    def joining(self, node: str, record: bytes, lease: int, *, knowing: bool) -> Txn:
        """The record goes in and, unless that is known, what the coordinator has said comes back, in one question."""
        put = Operation(request_put=Put(key=self.nodes + node.encode(), value=record, lease=lease))
        coordinator = Operation(request_range=Range(key=self.coordinator, range_end=end_of(self.coordinator)))
        return Txn(success=[put] if knowing else [put, coordinator])

    def campaigning(self, node: str, lease: int) -> Txn:
        """Take the coordinator if it is free; the node that has it then is in the answer."""
        free = Compare(key=self.coordinator, target="CREATE", create_revision=0)
        take = Operation(request_put=Put(key=self.coordinator, value=node.encode(), lease=lease))
        holder = Operation(request_range=Range(key=self.coordinator))
        return Txn(compare=[free], success=[take, holder], failure=[holder])

    def proclaiming(self, job_state: bytes, reign: int, lease: int) -> Txn:
        """Only who still has the coordinator may write: one that was deposed without hearing of it writes nothing."""
        mine = Compare(key=self.coordinator, target="CREATE", create_revision=reign)
        put = Operation(request_put=Put(key=self.job_state, value=job_state, lease=lease))
        return Txn(compare=[mine], success=[put])


def node_of(entry: KeyValue) -> str:
    """Whose record it is."""
    return entry.key.rpartition(b"/")[2].decode(errors="replace")


def apply(events: list[Event], records: dict[str, KeyValue]) -> None:
    """What has happened to records, done to what was known of them."""
    for event in events:
        if event.kv and event.type == "DELETE":
            records.pop(node_of(event.kv), None)
        elif event.kv:
            records[node_of(event.kv)] = event.kv


def end_of(prefix: bytes) -> bytes:
    """The first key after all that begin so."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
