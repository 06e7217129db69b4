"""This node's membership in a job: the store's news to the node and, if it has the chair, to the chair; and back.

No sockets and no clock of its own: the simulation runs hundreds of these in one process.
"""

from __future__ import annotations

from flota.job.meeting import LEASE
from flota.rendezvous.cards import Present, decode_card, encode_card
from flota.rendezvous.chair import Chair
from flota.rendezvous.node import Node
from flota.rendezvous.notices import ENDED, Notice, decode_notice, encode_notice
from flota.rendezvous.orders import Order
from flota.rendezvous.terms import Terms
from flota.store.messages import Distrusted, NotAdmitted, Stranger
from flota.store.presence import Presence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.store.messages import KeyValue, Refusal

LAST_TRY = 1.0  # seconds to take this node's card out of a store that does not answer just now
DENIED = 7  # gRPC's code
LOOK = 100e-6  # seconds between the chair's looks, for each card: thousands joining at once must not keep it busy


def refusal_in_words(refusal: Refusal, where: str) -> str:
    if where.startswith("etcd"):
        if isinstance(refusal, NotAdmitted) or "user name is empty" in refusal.words or refusal.code == DENIED:
            return f"{where} says `{refusal.words}`: see FLOTA_ETCD_USER, FLOTA_ETCD_PASSWORD and what the user may do"
    elif isinstance(refusal, NotAdmitted):
        return f"{where} does not know this job's token: set the same FLOTA_TOKEN on all nodes"
    if isinstance(refusal, Stranger):
        return (
            f"{where} answers, but not as a store: is it another program's port, or https:// (etcds://) that it wants?"
        )
    if isinstance(refusal, Distrusted):
        advice = "--tls-ca names who must have signed it, and it must be for the host in --master"
        return f"the certificate of {where} will not do: {refusal.words.rstrip('.')}; {advice}"
    return f"{where} refuses to be this job's store: {refusal.words}"


class Member:
    def __init__(self, node: Node, presence: Presence, terms: Terms, where: str, now: float) -> None:
        self.node = node
        self.presence = presence
        self.terms = terms
        self.where = where
        self.chair: Chair | None = None
        self.began = now
        self.heard: list[Notice] = []  # in order, until people have been told of them
        self._heard: bytes | None = None
        self._proclaimed: Notice | None = None
        self._cards: dict[str, tuple[int, Present]] = {}
        self._look_at: float | None = None
        self._next_look = 0.0
        self._stay_until = 0.0

    def advance(self, now: float) -> list[Order]:
        """What this node has to do now."""
        self._hear()
        self._preside(now)
        if self.presence.refusal:
            self.node.refused(refusal_in_words(self.presence.refusal, self.where))
        orders = self.node.advance(now, self.silent_since, self.trouble)
        if self.node.ending is not None:
            self._stay_until = self._stay_until or now + LEASE
            if not self._is_needed(now):
                self.presence.leave()
        elif self.node.card:
            self.presence.publish(encode_card(self.node.card))
        return orders

    @property
    def trouble(self) -> str:
        """Where the store should answer, and why it does not."""
        why = self.presence.contact.trouble.removeprefix(f"{self.where}: ")
        return f"{self.where}: {why}" if why else self.where

    @property
    def silent_since(self) -> float | None:
        """Since when the store owes an answer; None if it does not."""
        return self.began if self.presence.contact.heard_at is None else self.presence.contact.silent_since

    def is_gone(self, now: float) -> bool:
        """Whether nothing of this node is left in the store, or the store is not there to ask."""
        silent = self.presence.contact.silent_since is not None and now >= self._stay_until - LEASE + LAST_TRY
        return self.presence.gone or (self.presence.leaving and (silent or self.presence.refusal is not None))

    @property
    def deadline(self) -> float | None:
        times = [self.presence.deadline, self.node.deadline, self._look_at]
        if self._stay_until and not self.presence.leaving:
            times.append(self._stay_until)
        return min((time for time in times if time is not None), default=None)

    def _is_needed(self, now: float) -> bool:
        """The chair stays until everybody has heard how the job ended. New cards may be the next run's already."""
        has_ended = self.node.notice is not None and self.node.notice.ending is not None
        if not has_ended or not self.presence.chairs or self.silent_since is not None or now >= self._stay_until:
            return False
        members = self.chair.members if self.chair else set()
        return any(name in members and name != self.node.name for name in self.presence.cards or {})

    def _hear(self) -> None:
        notices, self.presence.notices = self.presence.notices, []
        for data in notices:
            notice = decode_notice(data) if data != self._heard else None
            self._heard = data
            over_before_we_came = notice and notice.ending and data == self.presence.found
            if notice and not over_before_we_came:
                self.node.hear(notice)
                self.heard += [notice] if self.node.notice is notice else []

    # With the chair.

    def _preside(self, now: float) -> None:
        if not self.presence.chairs or self.presence.cards is None:
            self.chair = self._proclaimed = self._look_at = None
            return
        if self.chair is None:
            self.chair = Chair(self.terms, self.node.notice, now, self.node.name, self.node.epoch)
            self.presence.news = True
        if self.presence.news:
            self.presence.news = False
            self._look_at = max(now, self._next_look) if self._look_at is None else min(self._look_at, self._next_look)
        if self._look_at is None or now < self._look_at:
            return
        trusting = now >= self.presence.contact.steady_from
        notice = self.chair.judge(self._present(self.presence.cards), now, trusting=trusting)
        self._next_look = now + len(self.presence.cards) * LOOK
        times = [self.chair.deadline, None if trusting else self.presence.contact.steady_from]
        self._look_at = min((time for time in times if time is not None), default=None)
        if notice != self._proclaimed and not self._is_blank(notice):
            self._proclaimed = notice
            self.presence.proclaim(encode_notice(notice), last=notice.state == ENDED)

    def _is_blank(self, notice: Notice) -> bool:
        """Before anything has been decided there is nothing to tell: every node offers itself for round 0 unasked."""
        return notice == Notice(notice.state) and notice.state != ENDED

    def _present(self, cards: dict[str, KeyValue]) -> list[Present]:
        """Decoded once each: of thousands of cards most are the same as at the last look."""
        known: dict[str, tuple[int, Present]] = {}
        for name, entry in cards.items():
            revision = int(entry.mod_revision)
            seen = self._cards.get(name)
            if seen is None or seen[0] != revision:
                card = decode_card(entry.value)
                if card is None:
                    continue
                seen = (revision, Present(name, int(entry.create_revision), card, revision))
            known[name] = seen
        self._cards = known
        return [present for _, present in known.values()]
