"""When the whole job is asked to stop, and all workers can end by themselves: one step for all of them; pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.errors import TRY_AGAIN
from flota.job.report import STOPPED
from flota.rendezvous.cards import DONE, GONE, LEAVING, YIELDED, YIELDING, Present
from flota.rendezvous.notices import Ending, Notice
from flota.supervise.yielding import agreed_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

SIGTERM = 15
OVER = (DONE, YIELDED, GONE)
ANSWER_TIME = 2.0  # seconds in which every node must say how far it is
NOTICE_TIME = 1.0  # seconds until every worker has heard the step


def next_word(
    notice: Notice, by_node: dict[str, Present], lost: Collection[str], done: Collection[str], *, late: bool
) -> Notice | Ending | None:
    """What the chair says next; None while it waits. `late`: the time for answers is over."""
    cards = {row.node: by_node[row.node].card for row in notice.seats if row.node in by_node and row.node not in lost}
    stopped = Ending(STOPPED, 128 + SIGTERM, SIGTERM, notice.why)
    if notice.stop_at is None:
        asked = [row.node for row in notice.seats if row.node not in done]
        answers = [cards[node] for node in asked if node in cards and cards[node].state in (YIELDING, LEAVING)]
        if lost or late or not all(card.yields for card in answers):
            return stopped
        if len(answers) < len(asked):
            return None
        pace = max((card.pace for card in answers), default=0.0)
        return replace(notice, stop_at=agreed_step([card.step for card in answers], pace, NOTICE_TIME))
    over = [row.node in lost or (row.node in cards and cards[row.node].state in OVER) for row in notice.seats]
    if not all(over):
        return None
    well = not lost and all(card.state != GONE for card in cards.values())
    return replace(stopped, code=TRY_AGAIN) if well else stopped
