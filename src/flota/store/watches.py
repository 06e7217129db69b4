"""Who is told of which changes. Pure; watchers are opaque to it.

Watchers of the same keys form a group: an event is made and encoded once for all of them, even for thousands.
"""

from __future__ import annotations

from collections import deque

from flota.store.entries import Change
from flota.store.messages import Event, WatchCreate
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

LONGEST_HISTORY = 1 << 16


class Interest(NamedTuple):
    """What a group of watchers wants to hear of."""

    key: bytes
    end: bytes
    with_before: bool
    puts: bool
    deletes: bool

    def matches(self, change: Change) -> bool:
        if not (self.puts if change.after else self.deletes):
            return False
        if not self.end:
            return change.key == self.key
        return self.key <= change.key and (self.end == b"\0" or change.key < self.end)


class Watches:
    def __init__(self) -> None:
        self._groups: dict[Interest, set[Hashable]] = {}
        self._history: deque[Change] = deque()
        self.oldest = 1  # the first revision whose changes are all still known

    def add(self, watcher: Hashable, ask: WatchCreate) -> list[Event]:
        """Tell this watcher from now on; what it asks for of the past is returned."""
        interest = interest_of(ask)
        self._groups.setdefault(interest, set()).add(watcher)
        if not ask.start_revision:
            return []
        past = (change for change in self._history if change.revision >= ask.start_revision)
        return [change.event(with_before=interest.with_before) for change in past if interest.matches(change)]

    def remove(self, watcher: Hashable, ask: WatchCreate) -> None:
        interest = interest_of(ask)
        group = self._groups.get(interest, set())
        group.discard(watcher)
        if not group:
            self._groups.pop(interest, None)

    def news(self, changes: list[Change]) -> Iterator[tuple[list[Event], set[Hashable]]]:
        """For each group that some of the changes concern: the events, and who gets them."""
        self._remember(changes)
        for interest, group in list(self._groups.items()):
            events = [change.event(with_before=interest.with_before) for change in changes if interest.matches(change)]
            if events:
                yield events, group

    def _remember(self, changes: list[Change]) -> None:
        self._history.extend(changes)
        while len(self._history) > LONGEST_HISTORY:
            self.oldest = self._history.popleft().revision + 1


def interest_of(ask: WatchCreate) -> Interest:
    muted = {str(name) for name in ask.filters}
    puts, deletes = not muted & {"NOPUT", "0"}, not muted & {"NODELETE", "1"}
    return Interest(ask.key, ask.range_end, ask.prev_kv, puts, deletes)
