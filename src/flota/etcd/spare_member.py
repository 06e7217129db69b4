"""A node without a member takes the place of one that is lost for good.

It asks all members now and then. Only one node at a time does something about what it finds: the one that has created a
key in the store.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import urlsplit

from flota.host.loop import Loop
from flota.job.nodes import Place
from flota.store.client import Client
from flota.store.client_connection import Lost
from flota.store.etcd_json import Compare, EtcdMember, MemberList, Operation, Put, Txn
from flota.store.keys import Keys

LOST_AFTER = 30.0  # seconds without an answer: a host that restarts keeps its place
PATIENCE = 1.0


class MissingMembers:
    """Since when members do not answer."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def find_lost(self, silent: Iterable[str], now: float) -> str:
        """The id of a member that has been silent for long enough; empty if there is none."""
        self._since = {member: self._since.get(member, now) for member in silent}
        return next((member for member, since in self._since.items() if now >= since + LOST_AFTER), "")


class MemberProbe:
    """Asks each member on its own. Calls `then` with the ids of those that do not answer."""

    def __init__(
        self, members: list[EtcdMember], loop: Loop, tls: ssl.SSLContext | None, then: Callable[[list[str]], object]
    ) -> None:
        self._then = then
        self._silent: list[str] = []
        self._clients: dict[str, Client] = {}
        for member in members:
            if place := place_of(member):
                self._clients[member.id] = Client((place,), loop, tls=tls, answer_time=PATIENCE)
        for member_id, client in list(self._clients.items()):
            client.ask(MemberList(), partial(self._on_answer, member_id), time.monotonic())

    @property
    def deadline(self) -> float | None:
        return min((end for one in self._clients.values() if (end := one.deadline) is not None), default=None)

    def on_time(self, now: float) -> None:
        for client in list(self._clients.values()):
            client.on_time(now)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients = {}

    def _on_answer(self, member_id: str, answer: object) -> None:
        if client := self._clients.pop(member_id, None):
            client.close()
            self._silent += [member_id] if isinstance(answer, Lost) else []
            if not self._clients:
                self._then(self._silent)


def place_of(member: EtcdMember) -> Place | None:
    """Where it answers clients: at the port before the one for other members."""
    try:
        url = urlsplit(member.peer_urls[0])
        return Place(url.hostname, url.port - 1) if url.hostname and url.port else None
    except (IndexError, ValueError):
        return None


def take_turn(keys: Keys, lease: int) -> Txn:
    """Succeeds for one node, until the lease ends."""
    key = f"{keys.prefix}replacement".encode()
    free = Compare(key=key, target="CREATE", create_revision=0)
    return Txn(compare=[free], success=[Operation(request_put=Put(key=key, lease=lease))])
