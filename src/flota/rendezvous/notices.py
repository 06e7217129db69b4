"""What the chair publishes: one notice under one key, which every node follows.

A notice replaces the one before it. Rounds only grow, and within a round gathering comes before running and running
before the roll call that follows a failure or a hang, so whoever missed some notices is right as soon as it hears the
latest. One way leads back: a job that seemed to hang, and does not, is running for another time.
"""

from __future__ import annotations

import zlib

import msgspec
from msgspec import Struct

from flota.job.report import NO_STEP
from flota.job.roles import TRAINER
from flota.job.roster import Ports, Seat
from flota.rendezvous.cards import MASTERS, Card, Fault

GATHERING, RUNNING, YIELD, ROLL_CALL, ENDED = "gathering", "running", "yield", "roll call", "ended"
STACKS = "stacks"  # all stand still: where do their ranks stand?
ORDER = (GATHERING, RUNNING, YIELD, STACKS, ROLL_CALL, ENDED)
LARGEST = 16 << 20  # bytes of an unpacked notice: ten thousand nodes with eight workers each


class SeatRow(Struct, frozen=True, array_like=True):
    """One node's place in a round."""

    node: str
    host: str
    address: str
    ports: tuple[int, ...]
    counts: tuple[int, ...] = ()

    @property
    def workers(self) -> int:
        return len(self.ports) - MASTERS

    def seat(self) -> Seat:
        ports = [str(port) for port in self.ports]
        return Seat(self.host, self.address, Ports(tuple(ports[:-MASTERS]), *ports[-MASTERS:]), self.counts)


class Refused(Struct, frozen=True, array_like=True):
    """A node that was turned away, and why."""

    host: str
    why: str


class SlowRow(Struct, frozen=True, array_like=True):
    """A rank that is slower than the rest of its role, and how many times."""

    rank: int
    host: str
    factor: float
    role: str = TRAINER


class Past(Struct, frozen=True, array_like=True, omit_defaults=True):
    """What is remembered of earlier failures: supervise/policy.py's History, on its way to the next chair."""

    quick: int = 0
    same: int = 0
    kind: str = ""
    best: int = NO_STEP
    worked: bool = False


class Ending(Struct, frozen=True, omit_defaults=True):
    """How the job ended, the same on every node. `faults` are in order of blame."""

    kind: str
    code: int = 0
    signal: int = 0
    reason: str = ""
    faults: tuple[Fault, ...] = ()
    ended: tuple[tuple[str, int], ...] = ()  # workers that had done their work when others failed


class Notice(Struct, frozen=True, omit_defaults=True):
    """`seats`: in a running round its nodes in order; while gathering those of the round before."""

    state: str
    round: int = 0
    attempt: int = 0
    seats: tuple[SeatRow, ...] = ()
    why: str = ""  # what ended the round before, for people
    faults: tuple[Fault, ...] = ()  # the failures behind it, or behind the roll call
    missing: str = ""  # while gathering: whom the job waits for, for people
    refused: dict[str, Refused] = {}
    left: tuple[str, ...] = ()  # nodes that take no part any more though their cards may still be there
    ending: Ending | None = None
    past: Past = Past()
    delay: float = 0.0  # seconds until the next round may begin
    slow: tuple[SlowRow, ...] = ()  # ranks of the running round
    look: int = 0  # the last look at all ranks that was asked for
    looked: int = 0  # the last one that is done, and what it has shown, for people
    places: tuple[str, ...] = ()
    aborts: bool = False  # all others have said where their ranks stand: who has to abort workers for it may
    lulls: int = 0  # how often all stood still, and one moved after all
    stop_at: int | None = None  # the step at which all workers save and end; None: how far are they?

    def seat_of(self, node: str) -> int:
        """A node's number in the round, -1 for none."""
        return next((number for number, seat in enumerate(self.seats) if seat.node == node), -1)

    def follows(self, earlier: Notice | None) -> bool:
        return earlier is None or self.place >= earlier.place

    @property
    def place(self) -> tuple[bool, int, int, int]:
        return self.state == ENDED, self.round, self.lulls, ORDER.index(self.state)


def take_seat(node: str, card: Card) -> SeatRow:
    return SeatRow(node, card.host, card.address, card.ports, card.counts)


def encode_notice(notice: Notice) -> bytes:
    """Deflated, because it goes to everybody: 4,096 nodes times 250 KB would be a gigabyte."""
    return zlib.compress(msgspec.json.encode(notice), 1)


def decode_notice(data: bytes) -> Notice | None:
    """None for what is no notice, or would unpack to more than a roster can need."""
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(data, LARGEST)
        notice = msgspec.json.decode(text, type=Notice)
    except (zlib.error, msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        return None
    return notice if notice.state in ORDER else None
