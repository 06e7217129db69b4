"""One watch of a client, on a connection of its own."""

from __future__ import annotations

from flota.store.client_connection import ClientConnection, Lost
from flota.store.etcd_json import OUT_OF_RANGE, Refusal, WatchAnswer, WatchCreate, WatchRequest, encode, read_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flota.store.client import Client

    OnWatchAnswer = Callable[[WatchAnswer | Refusal | Lost], None]

REASONS = {"InvalidArgument": 3, "PermissionDenied": 7, "Unauthenticated": 16}  # gRPC's names and codes


class ClientWatch:
    """`sent_at` is when it was sent, until the store has begun to answer."""

    def __init__(self, client: Client, request: WatchCreate, on_answer: OnWatchAnswer, lease: int) -> None:
        self.turn = 0
        self.sent_at: float | None = None
        self._client = client
        self._body = encode(WatchRequest(create_request=request))
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
        self._connection.send("/v3/watch", self._body, [*self._client.headers(), *headers], stream=True)

    def close(self) -> None:
        if connection := self._end():
            connection.close()

    def give_up(self, reason: Refusal | Lost) -> None:
        """Its connection may be alive, and is not closed while the lease depends on it."""
        connection = self._end()
        if connection and self._lease:
            self._client.keep_open(connection, self._lease)
        elif connection:
            connection.close()
        self._on_answer(reason)

    def _end(self) -> ClientConnection | None:
        connection, self._connection = self._connection, None
        self.sent_at = None
        self._client.forget(self)
        return connection

    def _on_message(self, status: int, line: bytes) -> None:
        if self._connection is None:
            return
        answer = read_answer(status, line, WatchAnswer, streamed=True)
        assert isinstance(answer, (WatchAnswer, Refusal))
        self.sent_at = None
        if isinstance(answer, WatchAnswer) and answer.canceled:
            answer = _refusal(answer)
        if isinstance(answer, Refusal):
            self.close()
            # etcd 3.5 treats a token that it has forgotten as one without permissions.
            if not self._retried and self._client.is_token_expired(answer, "permission denied"):
                self._retried = True
                self._client.begin(self)
                return
        elif answer.created and self._lease:
            self._client.close_kept(self._lease)
        self._on_answer(answer)

    def _on_lost(self, reason: Refusal | Lost) -> None:
        if self._connection is not None:
            self.close()
            self._on_answer(reason)


def _refusal(answer: WatchAnswer) -> Refusal:
    """etcd begins a watch that it does not grant, and cancels it then: as a refusal it is the same for all stores."""
    if answer.compact_revision:
        return Refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
    head, _, words = answer.cancel_reason.partition(" desc = ")
    return Refusal(REASONS.get(head.rpartition(" ")[2], OUT_OF_RANGE), words or answer.cancel_reason)
