"""One watch under way, on a connection of its own."""

from __future__ import annotations

from flota.store.client_connection import ClientConnection, Lost
from flota.store.etcd_json import Refusal, WatchAnswer, WatchCreate, WatchRequest, encode_request, read_streamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flota.store.client import Client

OUT_OF_RANGE = 11
REASONS = {"InvalidArgument": 3, "PermissionDenied": 7, "Unauthenticated": 16}  # gRPC's names and codes


class Watching:
    """`asked` is when it was asked for, until the store has begun to answer."""

    def __init__(
        self, client: Client, ask: WatchCreate, heard: Callable[[WatchAnswer | Refusal | Lost], None], lease: int
    ) -> None:
        self.turn = 0
        self.asked: float | None = None
        self._client = client
        self._body = encode_request(WatchRequest(create_request=ask))
        self._heard = heard
        self._lease = lease
        self._link: ClientConnection | None = None
        self._again = False

    def begin(self, turn: int, now: float) -> None:
        self.turn = turn
        self.asked = now
        self._link = self._client.connect(turn, self._on_message, self._on_lost)
        headers = [("x-flota-lease", str(self._lease))] if self._lease else []
        self._link.stream("/v3/watch", self._body, [*self._client.headers(), *headers])

    def close(self) -> None:
        link = self._end()
        if link:
            link.close()

    def lose(self, why: str) -> None:
        """It is not trusted any more. Its connection may live, and is not closed while the lease hangs on it."""
        link = self._end()
        if link and self._lease:
            self._client.linger(self._lease, link)
        elif link:
            link.close()
        self._heard(Lost(why))

    def refuse(self, answer: Refusal | Lost) -> None:
        """Before it could begin."""
        self._end()
        self._heard(answer)

    def _end(self) -> ClientConnection | None:
        link, self._link = self._link, None
        self.asked = None
        self._client.forget(self)
        return link

    def _on_message(self, status: int, line: bytes) -> None:
        if self._link is None:
            return
        answer = read_streamed(status, line, WatchAnswer)
        assert isinstance(answer, (WatchAnswer, Refusal))
        self.asked = None
        if isinstance(answer, WatchAnswer) and answer.canceled:
            answer = _reason(answer)
        if isinstance(answer, Refusal):
            self.close()
            # To etcd 3.5 a token that it has forgotten is one without permissions.
            if not self._again and self._client.has_lapsed(answer, "permission denied"):
                self._again = True
                self._client.begin(self)
                return
        elif answer.created and self._lease:
            self._client.settle(self._lease)
        self._heard(answer)

    def _on_lost(self, why: str) -> None:
        if self._link is not None:
            self.close()
            self._heard(Lost(why))


def _reason(answer: WatchAnswer) -> Refusal:
    """etcd begins a watch that it will not go on with, and then says so: as a refusal it is the same for all stores."""
    if answer.compact_revision:
        return Refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
    head, _, words = answer.cancel_reason.partition(" desc = ")
    return Refusal(REASONS.get(head.rpartition(" ")[2], OUT_OF_RANGE), words or answer.cancel_reason)
