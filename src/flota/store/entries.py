"""A key's present state, and what happened to it. Values only. Pure."""

from __future__ import annotations

from flota.store.etcd_json import Event, KeyValue
from flota.values import NamedTuple


class Entry(NamedTuple):
    """One key's present state."""

    key: bytes
    value: bytes
    created: int
    modified: int
    version: int
    lease: int

    def answer(self, *, keys_only: bool = False) -> KeyValue:
        return KeyValue(
            key=self.key,
            create_revision=str(self.created),
            mod_revision=str(self.modified),
            version=str(self.version),
            value=b"" if keys_only else self.value,
            lease=str(self.lease) if self.lease else "",
        )


class Change(NamedTuple):
    """What happened to one key. `after` is None for a deletion."""

    revision: int
    key: bytes
    after: Entry | None
    before: Entry | None

    def event(self, *, with_before: bool) -> Event:
        before = self.before.answer() if with_before and self.before else None
        if self.after:
            return Event(kv=self.after.answer(), prev_kv=before)
        return Event(type="DELETE", kv=KeyValue(key=self.key, mod_revision=str(self.revision)), prev_kv=before)
