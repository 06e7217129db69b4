"""The client of a store, the embedded master or etcd. It never blocks: answers arrive as calls from the loop.

There is one connection for requests, which are sent one at a time, and one for each watch. A request that is not
answered in time is lost, and the next one goes to the next member; the caller decides whether to send it again. If a
member does not answer a request, its watches are lost as well: it may have stopped sending events.

etcd may have users: it issues a token for a password, which expires some minutes after its last use.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from flota.job.nodes import Place
from flota.job.printable import printable
from flota.job.roster import endpoint
from flota.store import etcd_json as etcd
from flota.store.client_connection import ClientConnection, Lost
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from flota.host.loop import Loop

OnAnswer = Callable[[etcd.StoreAnswer | etcd.Refusal | Lost], None]
OnWatchAnswer = Callable[[etcd.WatchAnswer | etcd.Refusal | Lost], None]

ANSWER_TIME = 2.0  # seconds until a paused or lost member is given up for the next one
CANNOT_SERVE = (4, 14)  # gRPC codes of a member that is isolated, or has no leader
REASONS = {"InvalidArgument": 3, "PermissionDenied": 7, "Unauthenticated": 16}  # gRPC names and codes
EXPIRED = ("invalid auth token", "user name is empty", "revision of auth store is old")


class PendingRequest(NamedTuple):
    request: etcd.StoreRequest
    then: OnAnswer
    sent_at: float
    retried: bool = False


class Client:
    """The owner calls `on_time` when `deadline` has passed."""

    def __init__(
        self,
        members: tuple[Place, ...],
        loop: Loop,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        *,
        user: str = "",
        password: str = "",
        answer_time: float = ANSWER_TIME,
        accepts_etcd: bool = True,
        spare_ports: tuple[int, ...] = (),
        job: str = "",
    ) -> None:
        """`spare_ports`: the only member may have one of them instead of its own; the others may be those of strangers.
        `job`: the job whose master is meant. The master of another job refuses."""
        self.members = members
        self.token = token
        self.has_answered = False
        self._spare_ports, self._job = spare_ports, job
        self._loop, self._tls = loop, tls
        self._user, self._password = user, password
        self._authenticated = not user
        self._answer_time = answer_time
        self._accepts_etcd = accepts_etcd
        self._turn = 0  # which member is used, modulo their number
        self._queue: deque[PendingRequest] = deque()
        self._sent: PendingRequest | None = None
        self.last_seconds: float | None = None  # that the last request took which was answered
        self._connection: ClientConnection | None = None
        self._connection_turn = 0
        self.watches: list[ClientWatch] = []  # those that are not open wait for a token
        self.kept: dict[int, list[ClientConnection]] = {}  # connections of abandoned watches, by lease: see give_up

    def ask(self, request: etcd.StoreRequest, then: OnAnswer, now: float) -> None:
        self._queue.append(PendingRequest(request, then, now))
        self._send_next(now)

    def watch(self, request: etcd.WatchCreate, on_answer: OnWatchAnswer, lease: int = 0) -> ClientWatch:
        """`on_answer` is called for each answer; Lost or a Refusal is the last.

        The embedded master shortens `lease` when the last watch that names it has ended. So a caller that replaces a
        watch begins the new one before it closes the old one.
        """
        watch = ClientWatch(self, request, on_answer, lease)
        self.begin(watch)
        return watch

    @property
    def deadline(self) -> float | None:
        sent = [self._sent.sent_at] if self._sent else []
        sent += [watch.sent_at for watch in self.watches if watch.sent_at is not None]
        return min(sent) + self._answer_time if sent else None

    def on_time(self, now: float) -> None:
        late = now - self._answer_time
        if self._sent and self._sent.sent_at <= late:
            self._on_lost(self._drop_member(self._connection_turn, "no answer in time"))
        while overdue := [one for one in self.watches if one.sent_at is not None and one.sent_at <= late]:
            self._drop_member(overdue[0].turn, "no answer in time")

    def close(self) -> None:
        for watch in list(self.watches):
            watch.close()
        for lease in list(self.kept):
            self.close_kept(lease)
        self._close_connection()
        self._queue.clear()
        self._sent = None

    def headers(self) -> list[tuple[str, str]]:
        token = [("authorization", self.token)] if self.token else []
        return [*token, ("x-flota-job", self._job)] if self._job else token

    # For watches.

    def begin(self, watch: ClientWatch) -> None:
        now = time.monotonic()
        self.watches.append(watch)
        if self._authenticated:
            watch.begin(self._turn, now)
        else:
            self._send_next(now)

    def is_token_expired(self, refusal: etcd.Refusal, *more: str) -> bool:
        """Whether the token of this user may have expired. Then a new one is requested before anything else."""
        if not self._user or not any(words in refusal.words for words in (*EXPIRED, *more)):
            return False
        self._authenticated = False
        return True

    def connect(
        self, turn: int, on_message: Callable[[int, bytes], None], on_lost: Callable[[Lost | etcd.Refusal], None]
    ) -> ClientConnection:
        # After all members have been tried, use the next address of a name: the first may never answer.
        around, number = divmod(turn, len(self.members))
        host, port = self.members[number]
        return ClientConnection(host, port, self._loop, self._tls, on_message, on_lost, around, self._spare_ports)

    def close_kept(self, lease: int) -> None:
        for connection in self.kept.pop(lease, []):
            connection.close()

    # Requests.

    def _send_next(self, now: float) -> None:
        if self._sent:
            return
        if not self._authenticated and (self._queue or self._waiting_watches()):
            self._send(PendingRequest(etcd.Authenticate(self._user, self._password), self._on_authenticated, now))
        elif self._queue:
            self._send(self._queue.popleft()._replace(sent_at=now))

    def _send(self, pending: PendingRequest) -> None:
        self._sent = pending
        path, _ = etcd.ROUTES[type(pending.request)]
        if self._connection is None or not self._connection.is_open or self._connection_turn != self._turn:
            self._close_connection()
            self._connection_turn = self._turn
            self._connection = self.connect(self._turn, self._on_message, self._on_lost)
        headers = [] if isinstance(pending.request, etcd.Authenticate) else self.headers()
        self._connection.send(path, etcd.encode(pending.request), headers)

    def _on_authenticated(self, answer: etcd.StoreAnswer | etcd.Refusal | Lost) -> None:
        waiting = self._waiting_watches()
        if isinstance(answer, etcd.Refusal) and "authentication is not enabled" in answer.words:
            answer = etcd.AuthenticateAnswer(etcd.Header())  # this etcd has no users
        if isinstance(answer, etcd.AuthenticateAnswer):
            self.token = answer.token
            self._authenticated = True
            for watch in waiting:
                watch.begin(self._turn, time.monotonic())
            return
        assert isinstance(answer, (etcd.Refusal, Lost))
        if isinstance(answer, etcd.Refusal) and answer.code == etcd.INVALID:
            answer = etcd.Unauthenticated(answer.code, answer.words)
        for watch in waiting:
            watch.give_up(answer)
        # A loss fails one request, as always; a wrong password fails all of them.
        for _ in range(min(1, len(self._queue)) if isinstance(answer, Lost) else len(self._queue)):
            self._queue.popleft().then(answer)

    def _waiting_watches(self) -> list[ClientWatch]:
        return [watch for watch in self.watches if not watch.is_open]

    def _on_message(self, status: int, body: bytes) -> None:
        if self._sent is None:
            return
        answer = self._check_kind(etcd.read_answer(status, body, self._sent.request))
        if self._spare_ports and not self._is_master(answer):
            self._on_lost(answer)  # type: ignore[arg-type]  # a refusal
            return
        pending, self._sent = self._sent, None
        self.last_seconds = time.monotonic() - pending.sent_at
        self.has_answered = self.has_answered or isinstance(answer, etcd.StoreAnswer)
        if isinstance(answer, etcd.Refusal) and answer.code in CANNOT_SERVE:
            self._drop_member(self._connection_turn, answer.words)
        if isinstance(answer, etcd.Refusal) and not pending.retried and self.is_token_expired(answer):
            self._queue.appendleft(pending._replace(retried=True))
        else:
            pending.then(answer)
        self._send_next(time.monotonic())

    def _check_kind(self, answer: etcd.StoreAnswer | etcd.Refusal) -> etcd.StoreAnswer | etcd.Refusal:
        """Refuse an etcd that is used as an embedded master: none of its clients would ever coordinate the job."""
        by_etcd = isinstance(answer, etcd.StoreAnswer) and answer.header.cluster_id != ""
        has_users = isinstance(answer, etcd.Refusal) and "user name is empty" in answer.words
        if self._accepts_etcd or not (by_etcd or has_users):
            return answer
        listed = ",".join(endpoint(host, str(port)) for host, port in self.members)
        words = f"this is an etcd server: use --master {'etcds' if self._tls else 'etcd'}://{listed}"
        return etcd.UnexpectedEtcd(etcd.UNKNOWN, words)

    def _is_master(self, answer: etcd.StoreAnswer | etcd.Refusal) -> bool:
        """Whether the job's master has answered. From then on its port is known."""
        if isinstance(answer, etcd.Refusal) and not isinstance(answer, etcd.Unauthenticated):
            return False
        assert self._connection
        self.members, self._spare_ports = (Place(self.members[0].host, self._connection.port),), ()
        return True

    def _on_lost(self, reason: Lost | etcd.Refusal) -> None:
        if self._spare_ports and isinstance(reason, etcd.Refusal):
            reason = Lost(f"{endpoint(*map(str, self.members[0]))}: {reason.words}")  # a stranger's port
        self._close_connection()
        pending, self._sent = self._sent, None
        if pending:  # otherwise it was closed while idle: the next request opens a new one
            self._next_member(self._connection_turn)
            pending.then(reason)
            self._send_next(time.monotonic())

    def _drop_member(self, turn: int, why: str) -> Lost:
        """Move to the next member: this one does not answer, or cannot serve, so its watches would miss events."""
        self._next_member(turn)
        number = turn % len(self.members)
        host, port = self.members[number]
        lost = Lost(f"{endpoint(host, str(port))}: {why}")
        for watch in [one for one in self.watches if one.is_open and one.turn % len(self.members) == number]:
            watch.give_up(lost)
        return lost

    def _next_member(self, turn: int) -> None:
        if self._turn == turn:
            self._turn += 1
            self._authenticated = not self._user

    def _close_connection(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None


class ClientWatch:
    """One watch, on its own connection. `sent_at`: when it was sent; None once the store has answered."""

    def __init__(self, client: Client, request: etcd.WatchCreate, on_answer: OnWatchAnswer, lease: int) -> None:
        self.turn = 0
        self.sent_at: float | None = None
        self._client = client
        self._request = etcd.WatchRequest(create_request=request)
        self._on_answer = on_answer
        self._lease = lease
        self._connection: ClientConnection | None = None
        self._retried = False

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def begin(self, turn: int, now: float) -> None:
        self.turn = turn
        self.sent_at = now
        self._connection = self._client.connect(turn, self._on_message, self._on_lost)
        headers = [("x-flota-lease", str(self._lease))] if self._lease else []
        self._connection.send("/v3/watch", etcd.encode(self._request), [*self._client.headers(), *headers], stream=True)

    def close(self) -> None:
        if connection := self._end():
            connection.close()

    def give_up(self, reason: etcd.Refusal | Lost) -> None:
        """Abandon the watch. Its connection may be alive, and is kept until another one names the lease: if it ended,
        the store would shorten the lease."""
        connection = self._end()
        if connection and self._lease:
            self._client.kept.setdefault(self._lease, []).append(connection)
        elif connection:
            connection.close()
        self._on_answer(reason)

    def _end(self) -> ClientConnection | None:
        connection, self._connection = self._connection, None
        self.sent_at = None
        if self in self._client.watches:
            self._client.watches.remove(self)
        return connection

    def _on_message(self, status: int, line: bytes) -> None:
        if self._connection is None:
            return
        answer = etcd.read_answer(status, line, self._request)
        assert isinstance(answer, (etcd.WatchAnswer, etcd.Refusal))
        self.sent_at = None
        if isinstance(answer, etcd.WatchAnswer) and answer.canceled:
            answer = _refusal(answer)
        if isinstance(answer, etcd.Refusal):
            self.close()
            # etcd 3.5 treats an expired token as one without permissions.
            if not self._retried and self._client.is_token_expired(answer, "permission denied"):
                self._retried = True
                self._client.begin(self)
                return
        elif answer.created and self._lease:
            self._client.close_kept(self._lease)
        self._on_answer(answer)

    def _on_lost(self, reason: etcd.Refusal | Lost) -> None:
        if self._connection is not None:
            self.close()
            self._on_answer(reason)


def _refusal(answer: etcd.WatchAnswer) -> etcd.Refusal:
    """etcd creates a watch that it does not permit, then cancels it: report that as a refusal."""
    if answer.compact_revision != etcd.ZERO:
        return etcd.Refusal(etcd.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
    head, _, words = answer.cancel_reason.partition(" desc = ")
    code = REASONS.get(head.rpartition(" ")[2], etcd.OUT_OF_RANGE)
    return etcd.Refusal(code, printable(words or answer.cancel_reason))
