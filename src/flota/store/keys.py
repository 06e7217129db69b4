"""Where a job's entries are in a store, and the questions that change them."""

from __future__ import annotations

from flota.store.messages import Compare, Event, KeyValue, Operation, Put, Range, Txn
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
    def chair(self) -> bytes:
        return f"{self.prefix}chair".encode()

    @property
    def notice(self) -> bytes:
        return f"{self.prefix}chair/notice".encode()

    def joining(self, node: str, card: bytes, lease: int, *, knowing: bool) -> Txn:
        """The card goes in and, unless that is known, what the chair has said comes back, in one question."""
        put = Operation(request_put=Put(key=self.nodes + node.encode(), value=card, lease=lease))
        chair = Operation(request_range=Range(key=self.chair, range_end=end_of(self.chair)))
        return Txn(success=[put] if knowing else [put, chair])

    def campaigning(self, node: str, lease: int) -> Txn:
        """Take the chair if it is free; whoever has it then is in the answer."""
        free = Compare(key=self.chair, target="CREATE", create_revision=0)
        take = Operation(request_put=Put(key=self.chair, value=node.encode(), lease=lease))
        holder = Operation(request_range=Range(key=self.chair))
        return Txn(compare=[free], success=[take, holder], failure=[holder])

    def proclaiming(self, notice: bytes, reign: int, lease: int) -> Txn:
        """Only who still has the chair may write: one that was deposed without hearing of it writes nothing."""
        mine = Compare(key=self.chair, target="CREATE", create_revision=reign)
        put = Operation(request_put=Put(key=self.notice, value=notice, lease=lease))
        return Txn(compare=[mine], success=[put])


def node_of(entry: KeyValue) -> str:
    """Whose card it is."""
    return entry.key.rpartition(b"/")[2].decode(errors="replace")


def apply(events: list[Event], cards: dict[str, KeyValue]) -> None:
    """What has happened to cards, done to what was known of them."""
    for event in events:
        if event.kv and event.type == "DELETE":
            cards.pop(node_of(event.kv), None)
        elif event.kv:
            cards[node_of(event.kv)] = event.kv


def end_of(prefix: bytes) -> bytes:
    """The first key after all that begin so."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
