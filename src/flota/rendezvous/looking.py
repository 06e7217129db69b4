"""Where all ranks of a running job stand, because somebody has asked for it; pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.rendezvous.cards import RUNNING, SERVING, Present
from flota.rendezvous.notices import Notice
from flota.rendezvous.terms import listed
from flota.supervise.places import Post
from flota.supervise.suspects import find_suspects, groups_in_words, suspicion

ANSWER_TIME = 10.0  # seconds in which nodes have to say it


class Looks:
    """Numbered: whoever asks wants the next one, and all who ask at the same time the same. `deadline`: when to ask
    again though nothing has changed.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None

    def look(self, notice: Notice, of_round: list[Present], now: float) -> Notice:
        wanted = max((one.card.asks for one in of_round), default=0)
        if wanted > notice.look:
            notice = replace(notice, look=wanted)
        if notice.looked == notice.look:
            self.deadline = None
            return notice
        self.deadline = self.deadline or now + ANSWER_TIME
        at_work = [one.card for one in of_round if one.card.state in (RUNNING, SERVING)]
        silent = [card.host for card in at_work if card.looked < notice.look]
        if silent and now < self.deadline:
            return notice
        self.deadline = None
        posts = tuple(row.on(card.host) for card in at_work for row in card.seen if card.looked == notice.look)
        return replace(notice, looked=notice.look, places=_places(posts, silent))


def _places(posts: tuple[Post, ...], silent: list[str]) -> tuple[str, ...]:
    return (
        *groups_in_words(posts),
        *([f"if this is a hang: {suspicion(posts, find_suspects(posts))}"] if len(posts) > 1 else []),
        *([f"no answer from {listed(silent)}"] if silent else []),
    )
