"""What a node says of itself: one record each, under a key that only that node writes. Pure."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from flota.hangs.wait_sites import KINDS, RankPosition
from flota.job import causes
from flota.job.causes import is_hang
from flota.job.report import NO_STEP, FailedWorker
from flota.job.roles import COLLECTIVE, TRAINER
from flota.job.roster import Ports
from flota.preemption.stop_step import NOW

READY, RUNNING, DONE, FAILED, LEAVING = "ready", "running", "done", "failed", "leaving"
SERVING = "serving"  # its own work is done, or it has none; its servers are there for others
HERE = "here"  # answers a roll call
# Its workers can end by themselves, and how far they are; they have; they have ended in another way.
YIELDING, YIELDED, GONE = "yielding", "yielded", "gone"
STACKED = "stacked"  # it has said where its ranks stand
DEAD = "dead"  # said by its shepherd
LONGEST_TEXT = 4096  # a path
LONGEST_LINE = 400
SPECIAL = set(" ,;/@'\"")
MOST_ROUNDS = 1 << 31  # and looks


class StepRow(Struct, frozen=True, array_like=True):
    """How many seconds a step takes one rank of this node."""

    rank: int
    seconds: float
    role: str = TRAINER


class NodeRecord(Struct, frozen=True, omit_defaults=True):
    """`ports` are fresh for `round`: one a worker, then the three masters'. `state` speaks of that round. `roles` are
    all of the job's, `workers_by_role` this node's workers of each; none: trainers alone.
    """

    job: str
    host: str
    address: str
    ports: Ports
    least: int
    most: int
    frameworks: tuple[str, ...]
    rank: int = -1
    serves: bool = False
    state: str = READY
    round: int = 0
    signal: int = 0  # that told this node to leave
    failures: tuple[FailedWorker, ...] = ()
    roles: tuple[str, ...] = ()
    workers_by_role: tuple[int, ...] = ()
    yields: bool = False  # its workers can end by themselves, and have come to this step at this pace
    step: int = NOW
    pace: float = 0.0
    stands: float = 0.0  # its workers have stood still for so many seconds, and have not moved since
    timeout: float = 0.0  # after which it says so
    positions: tuple[RankPosition, ...] = ()
    blind: bool = False  # it has to abort its workers for their stacks, and has not yet
    steps: tuple[StepRow, ...] = ()  # of ranks that tell them
    asks: int = 0  # for this look at all ranks
    looked: int = 0  # the last look that it has answered, with what it saw
    seen: tuple[RankPosition, ...] = ()
    mode: str = COLLECTIVE
    agreed: str = ""  # a sum over what else must be the same everywhere
    clock: float = 0.0  # what it showed when the roll call was heard
    reached: int = NO_STEP  # the furthest step that a worker of this node had told when one of the job's failed
    ended: tuple[tuple[str, int], ...] = ()  # with success: role and rank; known when it is swept
    swept: bool = False  # its workers are gone, and all is said of them

    @property
    def workers(self) -> int:
        return len(self.ports.workers)


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


def is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536


def sendable(text: str) -> str:
    """Names may hold bytes that are no text, and lines of a log colours: what is sent is printable."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)[:LONGEST_TEXT]
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in text)


def sendable_position(position: RankPosition) -> RankPosition:
    return position._replace(words=sendable(position.words), log=sendable(position.log))


def sendable_failure(failed: FailedWorker) -> FailedWorker:
    return failed._replace(
        log=sendable(failed.log),
        ending=sendable(failed.ending),
        said=tuple(sendable(line[:LONGEST_LINE]) for line in failed.said),
        exception=sendable(failed.exception),
        evidence=sendable(failed.evidence),
        hint=sendable(failed.hint),
    )


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
    for failed in record.failures:
        texts += [failed.role, failed.node, failed.ending, failed.log, failed.exception, failed.evidence, failed.hint]
        texts += [*(line.replace("\t", " ") for line in failed.said)]
    for position in (*record.positions, *record.seen):
        texts += [position.words, position.role, position.host, position.log]
    workers, *masters = record.ports
    return (
        all(text.isprintable() and len(text) <= LONGEST_TEXT for text in texts)
        and not set(record.address) & SPECIAL
        # That the job hangs is the coordinator's to say.
        and all(one.cause in causes.ALL and not is_hang(one.code, one.cause) for one in record.failures)
        and all(is_step(row.seconds) for row in record.steps)
        and all(position.kind in KINDS for position in (*record.positions, *record.seen))
        and (record.state != FAILED or bool(record.failures))
        and record.workers > 0
        and len(record.workers_by_role) == len(record.roles)
        and min(record.workers_by_role, default=0) >= 0
        and sum(record.workers_by_role) == (record.workers if record.roles else 0)
        and all(is_port(port) for port in (*workers, *masters))
        and max(record.round, record.asks, record.looked) < MOST_ROUNDS  # others count on from them
    )
