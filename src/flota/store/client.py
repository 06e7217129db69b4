"""Asks a store, the embedded master or a real etcd, without ever blocking: answers come as calls from the node's loop.

One connection for questions, one after the other, and one for each watch. A question that is not answered in time is
lost, and the next one goes to the next member; whoever asked decides whether to ask again. A member that does not
answer questions is not believed to tell news either: its watches are lost with the question.
"""

from __future__ import annotations

import time
from collections import deque

from flota.store.link import Link, Lost
from flota.store.messages import (
    Answer,
    DeleteAnswer,
    DeleteRange,
    LeaseAnswer,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
    Put,
    PutAnswer,
    Range,
    RangeAnswer,
    Refusal,
    Request,
    Txn,
    TxnAnswer,
    WatchAnswer,
    WatchCreate,
    encode_request,
    read_answer,
)
from flota.store.watching import Watching
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from flota.store.server import Loop

__all__ = ["Client", "Lost", "Member", "Watching"]

ANSWER_TIME = 2.0  # seconds: a paused or lost member costs this much before the next one is asked
CANNOT_SERVE = (4, 14)  # gRPC's codes of a member that is cut off from the others, or has no leader
ROUTES: dict[type[Request], tuple[str, type[Answer]]] = {
    Range: ("/v3/kv/range", RangeAnswer),
    Put: ("/v3/kv/put", PutAnswer),
    DeleteRange: ("/v3/kv/deleterange", DeleteAnswer),
    Txn: ("/v3/kv/txn", TxnAnswer),
    LeaseGrant: ("/v3/lease/grant", LeaseAnswer),
    LeaseRevoke: ("/v3/lease/revoke", LeaseAnswer),
    LeaseKeepAlive: ("/v3/lease/keepalive", LeaseAnswer),
}
STREAMED = (LeaseKeepAlive,)


class Member(NamedTuple):
    host: str
    port: int


class Question(NamedTuple):
    request: Request
    then: Callable[[Answer | Refusal | Lost], None]
    asked: float


class Client:
    """Drive it: call `on_time` when `deadline` has passed."""

    def __init__(
        self,
        members: tuple[Member, ...],
        loop: Loop,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        *,
        answer_time: float = ANSWER_TIME,
    ) -> None:
        self.members = members
        self._answer_time = answer_time
        self.token = token
        self._tls = tls
        self._loop = loop
        self._turn = 0  # which member is asked, counted around
        self._waiting: deque[Question] = deque()
        self._asked: Question | None = None
        self._link: Link | None = None
        self._link_turn = 0
        self._watches: list[Watching] = []
        self._leaving: list[tuple[int, Link]] = []  # a lease, and a link that still names it

    def ask(self, request: Request, then: Callable[[Answer | Refusal | Lost], None], now: float) -> None:
        self._waiting.append(Question(request, then, now))
        self._next(now)

    def watch(
        self, ask: WatchCreate, heard: Callable[[WatchAnswer | Refusal | Lost], None], lease: int = 0
    ) -> Watching:
        """`heard` is called for everything that comes; after Lost or Refusal nothing more does.

        The embedded master revokes `lease` when the last watch that names it has ended. So whoever moves on watches
        anew first and closes the old one then.
        """
        watching = Watching(self, ask, heard, lease)
        self._watches.append(watching)
        watching.begin(self._turn, time.monotonic())
        return watching

    @property
    def member(self) -> Member:
        return self.members[self._turn % len(self.members)]

    @property
    def deadline(self) -> float | None:
        asked = [self._asked.asked] if self._asked else []
        asked += [watching.asked for watching in self._watches if watching.asked is not None]
        return min(asked) + self._answer_time if asked else None

    def on_time(self, now: float) -> None:
        late = now - self._answer_time
        if self._asked and self._asked.asked <= late:
            place = self._leave(self._link_turn, "no answer in time")
            self._give_up(f"{place}: no answer in time", now)
        while overdue := [one for one in self._watches if one.asked is not None and one.asked <= late]:
            self._leave(overdue[0].turn, "no answer in time")

    def close(self) -> None:
        for watching in list(self._watches):
            watching.close()
        for _, link in self._leaving:
            link.close()
        self._leaving.clear()
        self._drop_link()
        self._waiting.clear()
        self._asked = None

    def headers(self) -> list[tuple[str, str]]:
        return [("authorization", self.token)] if self.token else []

    # For watches.

    def connect(self, turn: int, on_message: Callable[[int, bytes], None], on_lost: Callable[[str], None]) -> Link:
        # The next time around the members, a name's next address: the first may be one that never answers.
        around, number = divmod(turn, len(self.members))
        member = self.members[number]
        return Link(member.host, member.port, self._loop, self._tls, on_message, on_lost, around)

    def forget(self, watching: Watching) -> None:
        if watching in self._watches:
            self._watches.remove(watching)

    def linger(self, lease: int, link: Link) -> None:
        """Keep a link that was given up until its lease is named by another: its end would be taken for this node's."""
        self._leaving.append((lease, link))

    def settle(self, lease: int) -> None:
        for named, link in self._leaving:
            if named == lease:
                link.close()
        self._leaving = [(named, link) for named, link in self._leaving if named != lease]

    # Questions.

    def _next(self, now: float) -> None:
        if self._asked or not self._waiting:
            return
        self._asked = self._waiting.popleft()._replace(asked=now)
        path, _ = ROUTES[type(self._asked.request)]
        if self._link is None or not self._link.is_open or self._link_turn != self._turn:
            self._drop_link()
            self._link_turn = self._turn
            self._link = self.connect(self._turn, self._on_answer, self._on_lost)
        self._link.send(path, encode_request(self._asked.request), self.headers())

    def _on_answer(self, status: int, body: bytes) -> None:
        question, self._asked = self._asked, None
        if question is None:
            return
        _, kind = ROUTES[type(question.request)]
        answer = read_answer(status, body, kind, streamed=isinstance(question.request, STREAMED))
        if isinstance(answer, Refusal) and answer.code in CANNOT_SERVE:
            self._leave(self._link_turn, answer.words)
        question.then(answer)
        self._next(time.monotonic())

    def _on_lost(self, why: str) -> None:
        if self._asked:
            self._move_on(self._link_turn)
            self._give_up(why, time.monotonic())
        else:
            self._drop_link()  # closed while idle: the next question opens another

    def _give_up(self, why: str, now: float) -> None:
        question, self._asked = self._asked, None
        self._drop_link()
        if question:
            question.then(Lost(why))
        self._next(now)

    def _leave(self, turn: int, why: str) -> str:
        """A member that is silent, or cannot serve: what is watched there would be missed."""
        self._move_on(turn)
        number = turn % len(self.members)
        place = ":".join(map(str, self.members[number]))
        for watching in [one for one in self._watches if one.turn % len(self.members) == number]:
            watching.lose(f"{place}: {why}")
        return place

    def _move_on(self, turn: int) -> None:
        if self._turn == turn:
            self._turn += 1

    def _drop_link(self) -> None:
        if self._link:
            self._link.close()
            self._link = None
