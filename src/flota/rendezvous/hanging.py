"""When all nodes of a round stand still: where all ranks of the job stand, and who makes the others wait; pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.errors import HANG
from flota.job.causes import HINTS
from flota.job.report import HANG_IN_WORDS, HUNG, LEFT_EARLY, NO_STEP
from flota.rendezvous.cards import FAILED, RUNNING, SERVING, STACKED, Fault, Present
from flota.rendezvous.notices import ROLL_CALL, Notice
from flota.rendezvous.notices import RUNNING as ROUND_RUNS
from flota.supervise.blame import duration_in_words
from flota.supervise.places import ENDED, Post
from flota.supervise.suspects import find_suspects, in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

ANSWER_TIME = 20.0  # seconds in which every node must say where its ranks stand: some have to abort them for it
MOST_SUSPECTS = 8
TOGETHER = 0.2  # of the timeout
GOES_ON = 0.45  # of it, after a node has done its work: so long may it take another to see that its ranks go on now


class Lull:
    """Whether all nodes stand still together: one may have waited for long for another that has just ended its work,
    and the next moment it will go on. `deadline`: when to ask again though nothing has changed.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._since, self._part = 0.0, TOGETHER
        self._done: frozenset[str] | None = None

    def lasts(self, notice: Notice, of_round: list[Present], done: Collection[str], now: float) -> bool:
        timeout = all_stand(notice, of_round, done)
        if timeout is None:
            self.deadline = self._done = None
            return False
        if self._done != frozenset(done):
            self._part = TOGETHER if self._done is None else GOES_ON
            self._since, self._done = now, frozenset(done)
        enough = self._since + self._part * timeout
        self.deadline = enough if now < enough else None
        return now >= enough


def all_stand(notice: Notice, of_round: list[Present], done: Collection[str]) -> float | None:
    """The shortest timeout after which every node that has work says that its workers stand still; None: one does not
    say so."""
    cards = {one.node: one.card for one in of_round}
    at_work = [row.node for row in notice.seats if row.node not in done]
    busy = [node for node in at_work if node not in cards or cards[node].state != SERVING]
    still = [cards[node] for node in busy if node in cards and cards[node].state == RUNNING and cards[node].stands]
    return min(card.timeout for card in still) if still and len(still) == len(busy) else None


def next_word(
    notice: Notice, by_node: dict[str, Present], lost: Collection[str], done: Collection[str], *, late: bool
) -> Notice | None:
    """What the chair says next; None while it waits for answers. Who fails meanwhile fails because of the hang. Workers
    are aborted last, because ranks of other nodes fail when they are; until then the job may turn out not to hang."""
    cards = [by_node[row.node].card for row in notice.seats if row.node in by_node and row.node not in lost]
    if not notice.aborts and any(card.state == RUNNING and not card.stands for card in cards):
        return replace(notice, state=ROUND_RUNS, lulls=notice.lulls + 1)
    answered = [card for card in cards if card.posts or card.state in (STACKED, FAILED, SERVING)]
    asked = [row for row in notice.seats if row.node in by_node or row.node not in done]
    if len(answered) < len(asked) and not late:
        blind = [card for card in cards if card.blind and card not in answered]
        aborts = bool(blind) and len(answered) + len(blind) == len(asked)
        return replace(notice, aborts=True) if aborts and not notice.aborts else None
    posts = tuple(row.on(card.host) for card in cards for row in card.posts)
    quiet = max((card.stands for card in cards), default=0.0)
    host = cards[0].host if cards else ""
    faults = _faults(posts, quiet, notice.attempt) or (_nobodys(posts, quiet, host, notice.attempt),)
    return replace(notice, state=ROLL_CALL, faults=faults)


def _faults(posts: tuple[Post, ...], quiet: float, attempt: int) -> tuple[Fault, ...]:
    words = _words(posts, quiet, attempt)
    return tuple(
        Fault(
            rank=one.rank,
            local_rank=one.worker,
            host=one.host,
            pid=one.pid,
            code=HANG,
            cause=LEFT_EARLY if one.kind == ENDED else HUNG,
            ending=HANG_IN_WORDS,
            ran=one.ran,
            log=one.log,
            said=words,
            role=one.role,
            attempt=attempt,
            step=one.step,
            hint=HINTS[LEFT_EARLY] if one.kind == ENDED else "",
        )
        for one in find_suspects(posts)[:MOST_SUSPECTS]
    )


def _nobodys(posts: tuple[Post, ...], quiet: float, host: str, attempt: int) -> Fault:
    return Fault(
        rank=-1,
        local_rank=-1,
        host=host,
        pid=0,
        code=HANG,
        cause=HUNG,
        ending=HANG_IN_WORDS,
        ran=max((one.ran for one in posts), default=0.0),
        log="",
        said=_words(posts, quiet, attempt),
        attempt=attempt,
        step=max((one.step for one in posts), default=NO_STEP),
    )


def _words(posts: tuple[Post, ...], quiet: float, attempt: int) -> tuple[str, ...]:
    what = "step" if posts and all(one.step != NO_STEP for one in posts) else "output"
    return (
        f"no {what} for {duration_in_words(quiet)}, and no rank is seen at work",
        *in_words(posts),
        f"stacks: in the log directory of each node, stacks.{attempt}.HOST.txt",
    )
