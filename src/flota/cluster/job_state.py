"""What the coordinator publishes: one job_state under one key, which every node follows.

A job_state replaces the one before it. Rounds only grow, and within a round gathering comes before running and running
before the roll call that follows a failure or a hang, so whoever missed some job_states is right as soon as it hears
the
latest. One way leads back: a job that seemed to hang, and does not, is running for another time. Pure.
"""

from __future__ import annotations

import zlib

import msgspec
from msgspec import Struct

from flota.cluster.node_record import NodeRecord
from flota.job.report import FailedWorker, JobEnding
from flota.job.roles import TRAINER
from flota.job.roster import Seat
from flota.supervise.restart_policy import History

GATHERING, RUNNING, YIELD, ROLL_CALL, ENDED = "gathering", "running", "yield", "roll call", "ended"
STACKS = "stacks"  # all stand still: where do their ranks stand?
ORDER = (GATHERING, RUNNING, YIELD, STACKS, ROLL_CALL, ENDED)
LARGEST = 16 << 20  # bytes of an unpacked job_state: ten thousand nodes with eight workers each


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


class JobState(Struct, frozen=True, omit_defaults=True):
    """`seats`: in a running round its nodes in order; while gathering those of the round before."""

    phase: str
    round: int = 0
    attempt: int = 0
    seats: tuple[Seat, ...] = ()
    why: str = ""  # what ended the round before, for people
    failures: tuple[FailedWorker, ...] = ()  # the failures behind it, or behind the roll call
    missing: str = ""  # while gathering: whom the job waits for, for people
    refused: dict[str, Refused] = {}
    left: tuple[str, ...] = ()  # nodes that take no part any more though their records may still be there
    ending: JobEnding | None = None
    past: History = History()
    delay: float = 0.0  # seconds until the next round may begin
    slow: tuple[SlowRow, ...] = ()  # ranks of the running round
    look: int = 0  # the last look at all ranks that was asked for
    looked: int = 0  # the last one that is done, and what it has shown, for people
    places: tuple[str, ...] = ()
    aborts: bool = False  # all others have said where their ranks stand: who has to abort workers for it may
    false_alarms: int = 0  # how often all stood still, and one moved after all
    stop_at: int | None = None  # the step at which all workers save and end; None: how far are they?

    def seat_of(self, node: str) -> int:
        """A node's number in the round, -1 for none."""
        return next((number for number, seat in enumerate(self.seats) if seat.node == node), -1)

    def follows(self, earlier: JobState | None) -> bool:
        return earlier is None or self.place >= earlier.place

    @property
    def place(self) -> tuple[bool, int, int, int]:
        return self.phase == ENDED, self.round, self.false_alarms, ORDER.index(self.phase)


def take_seat(node: str, record: NodeRecord) -> Seat:
    return Seat(node, record.host, record.address, record.ports, record.workers_by_role)


def encode_state(job_state: JobState) -> bytes:
    """Deflated, because it goes to everybody: 4,096 nodes times 250 KB would be a gigabyte."""
    return zlib.compress(msgspec.json.encode(job_state), 1)


def decode_state(data: bytes) -> JobState | None:
    """None for what is no job_state, or would unpack to more than a roster can need."""
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(data, LARGEST)
        job_state = msgspec.json.decode(text, type=JobState)
    except (zlib.error, msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        return None
    return job_state if job_state.phase in ORDER else None
