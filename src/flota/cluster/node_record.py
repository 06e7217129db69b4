"""What a node says of itself: one record each, under a key that only that node writes. Pure."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from flota.hangs.wait_sites import KINDS, RankPosition
from flota.job import causes
from flota.job.causes import is_hang
from flota.job.report import NO_STEP
from flota.job.roles import COLLECTIVE, TRAINER
from flota.preemption.stop_step import NOW

READY, RUNNING, DONE, FAILED, LEAVING = "ready", "running", "done", "failed", "leaving"
SERVING = "serving"  # its own work is done, or it has none; its servers are there for others
HERE = "here"  # answers a roll call
# Its workers can end by themselves, and how far they are; they have; they have ended in another way.
YIELDING, YIELDED, GONE = "yielding", "yielded", "gone"
STACKED = "stacked"  # it has said where its ranks stand
DEAD = "dead"  # said by its shepherd
LONGEST_TEXT = 4096  # a path
SPECIAL = set(" ,;/@'\"")
MOST_ROUNDS = 1 << 31  # and looks
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
    attempt: int = 0
    step: int = NO_STEP
    at: float = 0.0
    told: bool = False
    suffered: bool = False
    exception: str = ""
    evidence: str = ""
    hint: str = ""


class StepRow(Struct, frozen=True, array_like=True):
    """How many seconds a step takes one rank of this node."""

    rank: int
    seconds: float
    role: str = TRAINER


class PositionRow(Struct, frozen=True, array_like=True):
    """Where one rank of this node stands, or how it ended."""

    rank: int
    kind: str
    words: str
    role: str
    local_rank: int
    pid: int
    log: str
    ran: float
    step: int = NO_STEP

    def on(self, host: str) -> RankPosition:
        where = self.role, host, self.local_rank, self.pid
        return RankPosition(self.rank, self.kind, self.words, *where, self.log, self.ran, self.step)


class NodeRecord(Struct, frozen=True, omit_defaults=True):
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
    stands: float = 0.0  # its workers have stood still for so many seconds, and have not moved since
    timeout: float = 0.0  # after which it says so
    positions: tuple[PositionRow, ...] = ()
    blind: bool = False  # it has to abort its workers for their stacks, and has not yet
    steps: tuple[StepRow, ...] = ()  # of ranks that tell them
    asks: int = 0  # for this look at all ranks
    looked: int = 0  # the last look that it has answered, with what it saw
    seen: tuple[PositionRow, ...] = ()
    mode: str = COLLECTIVE
    agreed: str = ""  # a sum over what else must be the same everywhere
    clock: float = 0.0  # what it showed when the roll call was heard
    reached: int = NO_STEP  # the furthest step that a worker of this node had told when one of the job's failed
    ended: tuple[tuple[str, int], ...] = ()  # with success: role and rank; known when it is swept
    swept: bool = False  # its workers are gone, and all is said of them

    @property
    def workers(self) -> int:
        return len(self.ports) - MASTERS


class Present(Struct, frozen=True):
    """A record as the coordinator sees it: whose it is, when it came, and when it last said something, as the store
    counts.
    """

    node: str
    came: int
    record: NodeRecord
    said: int = 0


def is_step(seconds: float) -> bool:
    """Whether a step can take so long; scripts may tell anything."""
    return 1e-9 < seconds < 1e9


def sendable(text: str) -> str:
    """Names may hold bytes that are no text, and lines of a log colours: what is sent is printable."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)[:LONGEST_TEXT]
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in text)


def row_of(post: RankPosition, local_rank: int) -> PositionRow:
    words, log = sendable(post.words), sendable(post.log)
    return PositionRow(post.rank, post.kind, words, post.role, local_rank, post.pid, log, post.ran, post.step)


def encode_record(record: NodeRecord) -> bytes:
    return msgspec.json.encode(record)


def decode_record(data: bytes) -> NodeRecord | None:
    """None for what is no record: anybody who knows the token can write anything."""
    try:
        record = msgspec.json.decode(data, type=NodeRecord)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        return None
    return record if is_sound(record) else None


def is_sound(record: NodeRecord) -> bool:
    """What records say goes to every node's terminal, and into workers' variables."""
    texts = [record.job, record.host, record.address, record.mode, record.agreed, *record.frameworks, *record.roles]
    texts += [*(role for role, _ in record.ended), *(row.role for row in record.steps)]
    for fault in record.faults:
        texts += [fault.role, fault.host, fault.ending, fault.log, fault.exception, fault.evidence, fault.hint]
        texts += [*(line.replace("\t", " ") for line in fault.said)]
    for post in (*record.positions, *record.seen):
        texts += [post.words, post.role, post.log]
    return (
        all(text.isprintable() and len(text) <= LONGEST_TEXT for text in texts)
        and not set(record.address) & SPECIAL
        # That the job hangs is the coordinator's to say.
        and all(fault.cause in causes.ALL and not is_hang(fault.code, fault.cause) for fault in record.faults)
        and all(is_step(row.seconds) for row in record.steps)
        and all(post.kind in KINDS for post in (*record.positions, *record.seen))
        and (record.state != FAILED or bool(record.faults))
        and record.workers > 0
        and len(record.counts) == len(record.roles)
        and min(record.counts, default=0) >= 0
        and sum(record.counts) == (record.workers if record.roles else 0)
        and all(0 < port < 65536 for port in record.ports)
        and max(record.round, record.asks, record.looked) < MOST_ROUNDS  # others count on from them
    )
