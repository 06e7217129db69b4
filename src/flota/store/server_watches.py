"""Who is told of which changes. Pure; watchers are opaque to it.

Watchers of the same keys form a group: an event is made and encoded once for all of them, even for thousands. Pure.
"""

from __future__ import annotations

from bisect import bisect_left

from flota.store.entries import Change
from flota.store.etcd_json import Event, WatchCreate
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    Groups = dict["Interest", set[Hashable]]

LONGEST_HISTORY = 1 << 16
LARGEST_HISTORY = 8 << 20  # bytes of values: all of it, asked for, must be less than a client's backlog may be
KEPT = 7 / 8  # of a history that grew too long: so that it is not cut at every change


class Interest(NamedTuple):
    """What a group of watchers wants to hear of."""

    key: bytes
    end: bytes
    with_before: bool
    puts: bool
    deletes: bool

    def events(self, changes: list[Change]) -> list[Event]:
        """Written out, and no call for each change: thousands of nodes may ask for thousands of changes at once."""
        key, end = self.key, self.end
        if not end:
            found = [change for change in changes if change.key == key]
        elif end == b"\0":
            found = [change for change in changes if key <= change.key]
        else:
            found = [change for change in changes if key <= change.key < end]
        if not (self.puts and self.deletes):
            found = [change for change in found if (self.puts if change.after else self.deletes)]
        return [change.event(with_before=self.with_before) for change in found]


class Watches:
    def __init__(self) -> None:
        self._of_one: dict[bytes, Groups] = {}  # by key: most watch one, and most changes are of other keys
        self._of_many: Groups = {}
        self._history: list[Change] = []
        self._bytes = 0
        self.oldest = 1  # the first revision whose changes are all still known

    def add(self, watcher: Hashable, ask: WatchCreate) -> list[Event]:
        """Tell this watcher from now on; what it asks for of the past is returned."""
        interest = interest_of(ask)
        groups = self._of_many if interest.end else self._of_one.setdefault(interest.key, {})
        groups.setdefault(interest, set()).add(watcher)
        if not ask.start_revision:
            return []
        first = bisect_left(self._history, ask.start_revision, key=_revision)
        return interest.events(self._history[first:])

    def remove(self, watcher: Hashable, ask: WatchCreate) -> None:
        interest = interest_of(ask)
        groups = self._of_many if interest.end else self._of_one.get(interest.key, {})
        group = groups.get(interest, set())
        group.discard(watcher)
        if not group:
            groups.pop(interest, None)
        if not groups and not interest.end:
            self._of_one.pop(interest.key, None)

    def news(self, changes: list[Change]) -> Iterator[tuple[list[Event], set[Hashable]]]:
        """For each group that some of the changes concern: the events, and who gets them."""
        self._remember(changes)
        concerned = list(self._of_many.items())
        for key in {change.key for change in changes}:
            concerned += self._of_one.get(key, {}).items()
        for interest, group in concerned:
            if events := interest.events(changes):
                yield events, group

    def _remember(self, changes: list[Change]) -> None:
        self._history += changes
        self._bytes += sum(map(_size, changes))
        if len(self._history) <= LONGEST_HISTORY and self._bytes <= LARGEST_HISTORY:
            return
        gone = max(0, len(self._history) - int(LONGEST_HISTORY * KEPT))
        self._bytes -= sum(map(_size, self._history[:gone]))
        while self._bytes > LARGEST_HISTORY * KEPT:
            self._bytes -= _size(self._history[gone])
            gone += 1
        self.oldest = self._history[gone - 1].revision + 1
        del self._history[:gone]


def _revision(change: Change) -> int:
    return change.revision


def _size(change: Change) -> int:
    return len(change.after.value) if change.after else 0


def interest_of(ask: WatchCreate) -> Interest:
    muted = {str(name) for name in ask.filters}
    puts, deletes = not muted & {"NOPUT", "0"}, not muted & {"NODELETE", "1"}
    return Interest(ask.key, ask.range_end, ask.prev_kv, puts, deletes)
