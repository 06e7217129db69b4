"""Asks a store, the embedded master or a real etcd, without ever blocking: answers come as calls from the node's loop.

One connection for questions, one after the other, and one for each watch. A question that is not answered in time is
lost, and the next one goes to the next member; whoever asked decides whether to ask again.
"""

from __future__ import annotations

from collections import deque

from flota.store.link import Link
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
    Watch,
    WatchAnswer,
    WatchCreate,
    encode_request,
    read_answer,
    read_streamed,
)
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from flota.store.server import Loop

ANSWER_TIME = 2.0  # seconds: a paused or lost member costs this much before the next one is asked
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


class Lost(NamedTuple):
    """No answer: the member could not be reached, or took too long."""

    why: str


class Member(NamedTuple):
    host: str
    port: int


class Question(NamedTuple):
    request: Request
    then: Callable[[Answer | Refusal | Lost], None]
    asked: float


class Client:
    def __init__(
        self, members: tuple[Member, ...], loop: Loop, token: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        self.members = members
        self.token = token
        self._tls = tls
        self._loop = loop
        self._turn = 0
        self._waiting: deque[Question] = deque()
        self._asked: Question | None = None
        self._link: Link | None = None
        self._watches: list[Watching] = []

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
        watching = Watching(self, ask, heard, self.member, lease)
        self._watches.append(watching)
        return watching

    @property
    def member(self) -> Member:
        return self.members[self._turn % len(self.members)]

    @property
    def deadline(self) -> float | None:
        return self._asked.asked + ANSWER_TIME if self._asked else None

    def on_time(self, now: float) -> None:
        if self._asked and now >= self._asked.asked + ANSWER_TIME:
            self._lose("no answer in time", now)

    def close(self) -> None:
        for watching in list(self._watches):
            watching.close()
        self._drop_link()
        self._waiting.clear()
        self._asked = None

    def connect(self, member: Member, on_message: Callable[[int, bytes], None], on_lost: Callable[[str], None]) -> Link:
        # The next time around the members, a name's next address: the first may be one that never answers.
        around = self._turn // len(self.members)
        return Link(member.host, member.port, self._loop, self._tls, on_message, on_lost, around)

    def forget(self, watching: Watching) -> None:
        if watching in self._watches:
            self._watches.remove(watching)

    def headers(self) -> list[tuple[str, str]]:
        return [("authorization", self.token)] if self.token else []

    def _next(self, now: float) -> None:
        if self._asked or not self._waiting:
            return
        self._asked = self._waiting.popleft()._replace(asked=now)
        path, _ = ROUTES[type(self._asked.request)]
        if self._link is None or not self._link.is_open:
            self._link = self.connect(self.member, self._on_answer, self._on_lost)
        self._link.send(path, encode_request(self._asked.request), self.headers())

    def _on_answer(self, status: int, body: bytes) -> None:
        question, self._asked = self._asked, None
        if question is None:
            return
        _, kind = ROUTES[type(question.request)]
        question.then(read_answer(status, body, kind, streamed=isinstance(question.request, STREAMED)))
        self._next(question.asked)

    def _on_lost(self, why: str) -> None:
        if self._asked:
            self._lose(why, self._asked.asked)
        else:
            self._drop_link()  # closed while idle: the next question opens another

    def _lose(self, why: str, now: float) -> None:
        question, self._asked = self._asked, None
        self._drop_link()
        self._turn += 1
        if question:
            question.then(Lost(why))
        self._next(now)

    def _drop_link(self) -> None:
        if self._link:
            self._link.close()
            self._link = None


class Watching:
    """One watch under way."""

    def __init__(
        self,
        client: Client,
        ask: WatchCreate,
        heard: Callable[[WatchAnswer | Refusal | Lost], None],
        member: Member,
        lease: int,
    ) -> None:
        self._client = client
        self._heard = heard
        self._link = client.connect(member, self._on_message, self._on_lost)
        headers = client.headers() + ([("x-flota-lease", str(lease))] if lease else [])
        self._link.stream("/v3/watch", encode_request(Watch(create_request=ask)), headers)

    def close(self) -> None:
        self._link.close()
        self._client.forget(self)

    def _on_message(self, status: int, line: bytes) -> None:
        answer = read_streamed(status, line, WatchAnswer)
        if isinstance(answer, Refusal):
            self.close()
        assert isinstance(answer, (WatchAnswer, Refusal))
        self._heard(answer)

    def _on_lost(self, why: str) -> None:
        self.close()
        self._heard(Lost(why))
