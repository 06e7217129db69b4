"""What a node says of itself: one card each, under a key that only that node writes."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from flota.job.report import CAUSES

READY, RUNNING, DONE, FAILED, LEAVING = "ready", "running", "done", "failed", "leaving"
DEAD = "dead"  # said by its shepherd
MASTERS = 3  # ports behind the workers': torch's, Paddle's and JAX's


class Fault(Struct, frozen=True, omit_defaults=True):
    """A worker that failed by itself, with all that any node's last screen needs."""

    rank: int
    local_rank: int
    host: str
    pid: int
    code: int
    cause: str
    ending: str
    ran: float
    log: str
    said: tuple[str, ...] = ()


class Card(Struct, frozen=True, omit_defaults=True):
    """`ports` are fresh for `round`: one a worker, then the three masters'. `state` speaks of that round."""

    job: str
    host: str
    address: str
    ports: tuple[int, ...]
    least: int
    most: int
    frameworks: tuple[str, ...]
    rank: int = -1
    serves: bool = False
    state: str = READY
    round: int = 0
    signal: int = 0  # that told this node to leave
    faults: tuple[Fault, ...] = ()

    @property
    def workers(self) -> int:
        return len(self.ports) - MASTERS


class Present(Struct, frozen=True):
    """A card as the chair sees it: whose it is, when it came, and when it last said something, as the store counts."""

    node: str
    came: int
    card: Card
    said: int = 0


def sendable(text: str) -> str:
    """Names of files and jobs may hold bytes that are no text."""
    return text.encode(errors="replace").decode()


def encode_card(card: Card) -> bytes:
    return msgspec.json.encode(card)


def decode_card(data: bytes) -> Card | None:
    """None for what is no card: anybody who knows the token can write anything."""
    try:
        card = msgspec.json.decode(data, type=Card)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
    blamed = all(fault.cause in CAUSES for fault in card.faults) and (card.state != FAILED or bool(card.faults))
    # Names go to terminals and into variables.
    plain = card.host.isprintable() and card.address.isprintable()
    return card if card.workers > 0 and blamed and plain else None
