"""What a node says of itself: one card each, under a key that only that node writes."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from flota.job.report import CAUSES
from flota.job.roles import COLLECTIVE, TRAINER
from flota.supervise.yielding import NOW

READY, RUNNING, DONE, FAILED, LEAVING = "ready", "running", "done", "failed", "leaving"
SERVING = "serving"  # its own work is done, or it has none; its servers are there for others
HERE = "here"  # answers a roll call
# Its workers can end by themselves, and how far they are; they have; they have ended in another way.
YIELDING, YIELDED, GONE = "yielding", "yielded", "gone"
DEAD = "dead"  # said by its shepherd
LONGEST_TEXT = 4096  # a path
SPECIAL = set(" ,;/@'\"")
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
    role: str = TRAINER
    final: bool = False


class Card(Struct, frozen=True, omit_defaults=True):
    """`ports` are fresh for `round`: one a worker, then the three masters'. `state` speaks of that round. `roles` are
    all of the job's, `counts` this node's workers of each; none: trainers alone.
    """

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
    roles: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    yields: bool = False  # its workers can end by themselves, and have come to this step at this pace
    step: int = NOW
    pace: float = 0.0
    mode: str = COLLECTIVE
    agreed: str = ""  # a sum over what else must be the same everywhere

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
    """Names may hold bytes that are no text, and lines of a log colours: what is sent is printable."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)[:LONGEST_TEXT]
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in text)


def encode_card(card: Card) -> bytes:
    return msgspec.json.encode(card)


def decode_card(data: bytes) -> Card | None:
    """None for what is no card: anybody who knows the token can write anything."""
    try:
        card = msgspec.json.decode(data, type=Card)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        return None
    return card if is_sound(card) else None


def is_sound(card: Card) -> bool:
    """What cards say goes to every node's terminal, and into workers' variables."""
    texts = [card.job, card.host, card.address, card.mode, card.agreed, *card.frameworks, *card.roles]
    for fault in card.faults:
        texts += [fault.role, fault.host, fault.ending, fault.log, *(line.replace("\t", " ") for line in fault.said)]
    return (
        all(text.isprintable() and len(text) <= LONGEST_TEXT for text in texts)
        and not set(card.address) & SPECIAL
        and all(fault.cause in CAUSES for fault in card.faults)
        and (card.state != FAILED or bool(card.faults))
        and card.workers > 0
        and len(card.counts) == len(card.roles)
        and min(card.counts, default=0) >= 0
        and sum(card.counts) == (card.workers if card.roles else 0)
        and all(0 < port < 65536 for port in card.ports)
    )
