"""Which watchers get which events, and the event history for watches that start in the past. Watchers are opaque here.

Watchers of the same keys form a group: an event is created and encoded once for all of them. Pure.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator

from flota.store.etcd_json import Event, WatchCreate

LARGEST_HISTORY = 16 << 20  # bytes: must be less than the largest backlog of a client, which may request all of it
EVENT_SIZE = 256  # bytes, besides the value
KEPT_PART = 7 / 8  # of a history that grew too large, so that it is not trimmed at every change


class ServerWatches:
    def __init__(self) -> None:
        self._groups: dict[tuple[bytes, bytes], set[Hashable]] = {}  # by key and range end; a job has two
        self._history: list[Event] = []
        self._bytes = 0
        self.oldest = 1  # the first revision from which the history is complete

    def add(self, watcher: Hashable, request: WatchCreate) -> list[Event]:
        """Add a watcher. Returns the past events that it requests."""
        key, end = request.key, request.range_end
        self._groups.setdefault((key, end), set()).add(watcher)
        if not request.start_revision:
            return []
        first = bisect_left(self._history, request.start_revision, key=_revision)
        return _choose(key, end, self._history[first:])

    def remove(self, watcher: Hashable, request: WatchCreate) -> None:
        group = self._groups.get((request.key, request.range_end), set())
        group.discard(watcher)
        if not group:
            self._groups.pop((request.key, request.range_end), None)

    def publish(self, events: list[Event]) -> Iterator[tuple[list[Event], set[Hashable]]]:
        """For each group with matching keys: the events, and the watchers that get them."""
        self._remember(events)
        for (key, end), group in list(self._groups.items()):
            if chosen := _choose(key, end, events):
                yield chosen, group

    def _remember(self, events: list[Event]) -> None:
        self._history += events
        self._bytes += sum(map(_size, events))
        if self._bytes <= LARGEST_HISTORY:
            return
        gone = 0
        while self._bytes > LARGEST_HISTORY * KEPT_PART:
            self._bytes -= _size(self._history[gone])
            gone += 1
        self.oldest = _revision(self._history[gone - 1]) + 1
        del self._history[:gone]


def _choose(key: bytes, end: bytes, events: list[Event]) -> list[Event]:
    """No function call per event: thousands of nodes may request thousands of events at once."""
    if not end:
        return [event for event in events if event.kv.key == key]
    if end == b"\0":
        return [event for event in events if key <= event.kv.key]
    return [event for event in events if key <= event.kv.key < end]


def _revision(event: Event) -> int:
    return int(event.kv.mod_revision)


def _size(event: Event) -> int:
    return EVENT_SIZE + len(event.kv.value)
