"""Slow ranks of a job on many machines: what nodes tell of their ranks' steps, and which ranks stand out; pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.rendezvous.cards import Card, Present, StepRow, is_step
from flota.rendezvous.notices import Notice, SlowRow
from flota.supervise.stragglers import PERIOD, Stragglers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.supervise.stragglers import Who

WORTH_TELLING = 0.1  # of what was told before: a thousand nodes must not write whenever a step takes a little longer


def told_steps(card: Card, seconds: Mapping[Who, float]) -> tuple[StepRow, ...]:
    """What a card says of its ranks' steps: as before, while not much has changed."""
    rows = tuple(StepRow(rank, float(f"{took:.3g}"), role) for (role, rank), took in seconds.items() if is_step(took))
    before = {(row.role, row.rank): row.seconds for row in card.steps}
    same = len(rows) == len(before) and all(
        abs(row.seconds - before.get((row.role, row.rank), 0.0)) <= WORTH_TELLING * row.seconds for row in rows
    )
    return card.steps if same else rows


class Pace:
    """Who of a round's ranks is slow. `deadline`: when to ask again though nothing has changed."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._round = -1
        self._stragglers = Stragglers()

    def look(self, notice: Notice, of_round: list[Present], now: float) -> Notice:
        """With whoever has become slow since the last one, and without whoever has recovered."""
        if notice.round != self._round:
            self._round, self.deadline = notice.round, None
            self._stragglers = Stragglers((row.role, row.rank) for row in notice.slow)
        if self.deadline is not None and now < self.deadline:
            return notice
        cards = [one.card for one in of_round if one.card.steps]
        self.deadline = now + PERIOD if cards else None
        hosts = {(row.role, row.rank): card.host for card in cards for row in card.steps}
        seconds = {(row.role, row.rank): row.seconds for card in cards for row in card.steps}
        slow = {(row.role, row.rank): row for row in notice.slow}
        for one in self._stragglers.look(now, seconds):
            who = one.role, one.rank
            slow.pop(who, None)
            if not one.recovered:
                slow[who] = SlowRow(one.rank, hosts[who], round(one.factor, 2), one.role)
        rows = tuple(slow.values())
        return replace(notice, slow=rows) if rows != notice.slow else notice
