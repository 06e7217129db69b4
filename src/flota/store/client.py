"""Asks a store, the embedded master or a real etcd, without ever blocking: answers come as calls from the node's loop.

One connection for questions, one after the other, and one for each watch. A question that is not answered in time is
lost, and the next one goes to the next member; whoever asked decides whether to ask again. A member that does not
answer questions is not believed to tell news either: its watches are lost with the question.

A real etcd may have users: it gives one a token for the password, and forgets it some minutes after its last use.
"""

from __future__ import annotations

import time
from collections import deque

from flota.store.client_connection import ClientConnection, Lost
from flota.store.client_watch import Watching
from flota.store.etcd_json import (
    Authenticate,
    AuthenticateAnswer,
    DeleteAnswer,
    DeleteRange,
    Header,
    LeaseAnswer,
    LeaseGrant,
    LeaseKeepAlive,
    LeaseRevoke,
    NotAdmitted,
    Put,
    PutAnswer,
    Range,
    RangeAnswer,
    Refusal,
    Request,
    StoreAnswer,
    Txn,
    TxnAnswer,
    WatchAnswer,
    WatchCreate,
    encode_request,
    read_answer,
)
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from flota.store.server import LoopProtocol

__all__ = ["Client", "Lost", "StoreMember", "Watching"]

ANSWER_TIME = 2.0  # seconds: a paused or lost member costs this much before the next one is asked
CANNOT_SERVE = (4, 14)  # gRPC's codes of a member that is cut off from the others, or has no leader
ROUTES: dict[type[Request], tuple[str, type[StoreAnswer]]] = {
    Range: ("/v3/kv/range", RangeAnswer),
    Put: ("/v3/kv/put", PutAnswer),
    DeleteRange: ("/v3/kv/deleterange", DeleteAnswer),
    Txn: ("/v3/kv/txn", TxnAnswer),
    LeaseGrant: ("/v3/lease/grant", LeaseAnswer),
    LeaseRevoke: ("/v3/lease/revoke", LeaseAnswer),
    LeaseKeepAlive: ("/v3/lease/keepalive", LeaseAnswer),
    Authenticate: ("/v3/auth/authenticate", AuthenticateAnswer),
}
STREAMED = (LeaseKeepAlive,)
FORGOTTEN = ("invalid auth token", "user name is empty", "revision of auth store is old")
INVALID = 3


class StoreMember(NamedTuple):
    host: str
    port: int


class Question(NamedTuple):
    request: Request
    then: Callable[[StoreAnswer | Refusal | Lost], None]
    asked: float
    again: bool = False


class Client:
    """Drive it: call `on_time` when `deadline` has passed."""

    def __init__(
        self,
        members: tuple[StoreMember, ...],
        loop: LoopProtocol,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        *,
        user: str = "",
        password: str = "",
        answer_time: float = ANSWER_TIME,
    ) -> None:
        self.members = members
        self._user = user
        self._password = password
        self._admitted = not user
        self._held: list[Watching] = []  # until the user is admitted
        self._answer_time = answer_time
        self.token = token
        self._tls = tls
        self._loop = loop
        self._turn = 0  # which member is asked, counted around
        self._waiting: deque[Question] = deque()
        self._asked: Question | None = None
        self._link: ClientConnection | None = None
        self._link_turn = 0
        self._watches: list[Watching] = []
        self._leaving: list[tuple[int, ClientConnection]] = []  # a lease, and a link that still names it

    def ask(self, request: Request, then: Callable[[StoreAnswer | Refusal | Lost], None], now: float) -> None:
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
        self.begin(watching)
        return watching

    @property
    def member(self) -> StoreMember:
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
        for watching in [*self._watches, *self._held]:
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

    def begin(self, watching: Watching) -> None:
        now = time.monotonic()
        if self._admitted:
            self._watches.append(watching)
            watching.begin(self._turn, now)
        else:
            self._held.append(watching)
            self._next(now)

    def has_lapsed(self, refusal: Refusal, *more: str) -> bool:
        """Whether the store may only have forgotten this user's token. Then a new one is asked for before all else."""
        if not self._user or not any(words in refusal.words for words in (*FORGOTTEN, *more)):
            return False
        self._admitted = False
        return True

    def connect(
        self, turn: int, on_message: Callable[[int, bytes], None], on_lost: Callable[[str], None]
    ) -> ClientConnection:
        # The next time around the members, a name's next address: the first may be one that never answers.
        around, number = divmod(turn, len(self.members))
        member = self.members[number]
        return ClientConnection(member.host, member.port, self._loop, self._tls, on_message, on_lost, around)

    def forget(self, watching: Watching) -> None:
        for known in (self._watches, self._held):
            if watching in known:
                known.remove(watching)

    def linger(self, lease: int, link: ClientConnection) -> None:
        """Keep a link that was given up until its lease is named by another: its end would be taken for this node's."""
        self._leaving.append((lease, link))

    def settle(self, lease: int) -> None:
        for named, link in self._leaving:
            if named == lease:
                link.close()
        self._leaving = [(named, link) for named, link in self._leaving if named != lease]

    # Questions.

    def _next(self, now: float) -> None:
        if self._asked:
            return
        if not self._admitted and (self._waiting or self._held):
            self._send(Question(Authenticate(self._user, self._password), self._on_admitted, now))
        elif self._waiting:
            self._send(self._waiting.popleft()._replace(asked=now))

    def _send(self, question: Question) -> None:
        self._asked = question
        path, _ = ROUTES[type(question.request)]
        if self._link is None or not self._link.is_open or self._link_turn != self._turn:
            self._drop_link()
            self._link_turn = self._turn
            self._link = self.connect(self._turn, self._on_answer, self._on_lost)
        headers = [] if isinstance(question.request, Authenticate) else self.headers()
        self._link.send(path, encode_request(question.request), headers)

    def _on_admitted(self, answer: StoreAnswer | Refusal | Lost) -> None:
        held, self._held = self._held, []
        if isinstance(answer, Refusal) and "authentication is not enabled" in answer.words:
            answer = AuthenticateAnswer(Header())  # there are no users: everybody is admitted
        if isinstance(answer, AuthenticateAnswer):
            self.token = answer.token
            self._admitted = True
            for watching in held:
                self.begin(watching)
            return
        assert isinstance(answer, (Refusal, Lost))
        if isinstance(answer, Refusal) and answer.code == INVALID:
            answer = NotAdmitted(answer.code, answer.words)
        for watching in held:
            watching.refuse(answer)
        # A loss costs one question, as always; a wrong password is wrong for all.
        for _ in range(min(1, len(self._waiting)) if isinstance(answer, Lost) else len(self._waiting)):
            self._waiting.popleft().then(answer)

    def _on_answer(self, status: int, body: bytes) -> None:
        question, self._asked = self._asked, None
        if question is None:
            return
        _, kind = ROUTES[type(question.request)]
        answer = read_answer(status, body, kind, streamed=isinstance(question.request, STREAMED))
        if isinstance(answer, Refusal) and answer.code in CANNOT_SERVE:
            self._leave(self._link_turn, answer.words)
        if isinstance(answer, Refusal) and not question.again and self.has_lapsed(answer):
            self._waiting.appendleft(question._replace(again=True))
        else:
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
            self._admitted = not self._user

    def _drop_link(self) -> None:
        if self._link:
            self._link.close()
            self._link = None
