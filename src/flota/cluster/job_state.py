"""What the coordinator publishes: one job state under one key, which every node follows.

A job state replaces the one before it. Rounds only grow; within a round gathering comes before running, and question
after question is asked and closed. So a node that has missed some job states is right as soon as it gets the latest.
Pure.
"""

from __future__ import annotations

import zlib

import msgspec
from msgspec import Struct

from flota.cluster.node_record import NodeRecord
from flota.job.report import MOST_RESTARTS, FailedWorker, JobEnding, PastRestart, failure_in_brief
from flota.job.roster import Seat
from flota.job.survey_outcomes import Question, Result
from flota.stragglers.detector import SlowRank
from flota.supervise.restart_policy import History

GATHERING, RUNNING, ENDED = "gathering", "running", "ended"
DECIDING = "deciding"  # a running round whose nodes have been asked something that decides what becomes of it
PHASES = (GATHERING, RUNNING, DECIDING, ENDED)
LARGEST = 16 << 20  # bytes of an unpacked job state: ten thousand nodes with eight workers each


class Refused(Struct, frozen=True, array_like=True):
    """A node that was turned away, and why."""

    host: str
    why: str


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
    restarts: tuple[PastRestart, ...] = ()  # the last of them
    delay: float = 0.0  # seconds until the next round may begin
    slow: tuple[SlowRank, ...] = ()  # ranks of the running round
    asked: int = 0  # the last question's number
    question: Question | None = None  # to all nodes of the round, until it is closed
    results: dict[str, Result] = {}  # of questions that users asked, by kind
    log_time: str = ""  # what `{time}` in --log_dir stands for, from the first round on

    def seat_of(self, node: str) -> int:
        """A node's number in the round, -1 for none."""
        return next((number for number, seat in enumerate(self.seats) if seat.node == node), -1)

    def follows(self, earlier: JobState | None) -> bool:
        return earlier is None or self.place >= earlier.place

    def asks(self, kind: str) -> bool:
        return self.question is not None and self.question.kind == kind

    @property
    def place(self) -> tuple[bool, int, bool, int, bool]:
        return self.phase == ENDED, self.round, self.phase != GATHERING, self.asked, self.question is None


def with_restart(
    job_state: JobState, at: float, why: str, culprit: FailedWorker | None, lost: tuple[str, ...]
) -> tuple[PastRestart, ...]:
    """The past restarts and the one that ends this round."""
    reason = failure_in_brief(culprit, name_host=True) if culprit else why
    restart = PastRestart(job_state.round, at, reason, culprit is not None, lost)
    return (*job_state.restarts, restart)[-MOST_RESTARTS:]


def take_seat(node: str, record: NodeRecord) -> Seat:
    return Seat(node, record.host, record.address, record.ports, record.workers_by_role)


def encode_state(job_state: JobState) -> bytes:
    """Deflated, because it goes to every node: 4,096 nodes times 250 KB would be a gigabyte."""
    return zlib.compress(msgspec.json.encode(job_state), 1)


def decode_state(data: bytes) -> JobState | None:
    """None for what is not a job state, or would unpack to more than a roster can need."""
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(data, LARGEST)
        job_state = msgspec.json.decode(text, type=JobState)
    except (zlib.error, msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        return None
    lacks_question = job_state.phase == DECIDING and job_state.question is None
    return job_state if job_state.phase in PHASES and not lacks_question else None
