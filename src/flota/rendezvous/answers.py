"""What follows from the answers to a question of the chair's: how far are all workers, or where do they stand? Pure."""

from __future__ import annotations

from flota.rendezvous import hanging, yielding
from flota.rendezvous.cards import Present
from flota.rendezvous.notices import STACKS, YIELD, Ending, Notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

ANSWER_TIMES = {YIELD: yielding.ANSWER_TIME, STACKS: hanging.ANSWER_TIME}


def next_word(
    notice: Notice, by_node: dict[str, Present], lost: Collection[str], done: Collection[str], *, late: bool
) -> Notice | Ending | None:
    """What the chair says next; None while it waits. `late`: the time for answers is over."""
    if notice.state == STACKS:
        return hanging.next_word(notice, by_node, lost, done, late=late)
    return yielding.next_word(notice, by_node, lost, done, late=late)
