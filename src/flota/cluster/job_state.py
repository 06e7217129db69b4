"""What the coordinator publishes: one job state under one key, which every node follows.

A job state replaces the previous one. Rounds only increase. Within a round gathering comes before running, and
questions are asked and closed one at a time. So a node that has missed some job states only needs the latest. Pure.
"""

from __future__ import annotations

import zlib

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flota.cluster.node_record import NodeRecord
from flota.job.report import MOST_RESTARTS, FailedWorker, JobEnding, PastRestart, failure_in_brief
from flota.job.roster import Seat
from flota.job.survey_outcomes import Question, Result
from flota.snapshots.agreement import AgreedStep
from flota.store.decoding import BadMessage, decode_json
from flota.stragglers.detector import SlowRank
from flota.supervise.restart_policy import History

GATHERING, RUNNING, ENDED = "gathering", "running", "ended"
DECIDING = "deciding"  # a running round with an urgent question, which decides whether it continues
PHASES = (GATHERING, RUNNING, DECIDING, ENDED)
LARGEST = 16 << 20  # bytes of a decompressed job state: ten thousand nodes with eight workers each


class Refused(Struct, frozen=True, array_like=True):
    """A node that was refused, and why."""

    host: str
    why: str


class JobState(Struct, frozen=True, omit_defaults=True):
    """`seats`: the nodes of the round, in order; while gathering, those of the last round."""

    phase: str
    round: int = 0
    attempt: int = 0
    seats: tuple[Seat, ...] = ()
    why: str = ""  # what ended the last round, for people
    failures: tuple[FailedWorker, ...] = ()  # the failures that ended it, or that led to the roll call
    join_status: str = ""  # while gathering: which nodes have joined, for people
    refused: dict[str, Refused] = {}
    left: tuple[str, ...] = ()  # nodes that have left, although their records may still be there
    ending: JobEnding | None = None
    reports: str = ""  # the node that runs --on_event for all, and prints how the job ended on a shared console
    past: History = History()
    restarts: tuple[PastRestart, ...] = ()  # the last of them
    delay: float = 0.0  # seconds until the next round may begin
    problems: tuple[str, ...] = ()  # of the nodes of the round, for people
    slow: tuple[SlowRank, ...] = ()  # slow ranks of the running round
    elapsed: float = 0.0  # seconds from the start of the first round to the start of this one
    asked: int = 0  # the last question's number
    question: Question | None = None  # to all nodes of the round, until it is closed
    spares: tuple[Seat, ...] = ()  # nodes without a seat, which wait for one
    evicted: tuple[str, ...] = ()  # nodes that were swapped for a spare because of a slow rank
    results: dict[str, Result] = {}  # of questions that users asked, by kind
    snapshots: tuple[AgreedStep, ...] = ()  # the states that the ranks of the round load
    run_name: str = ""  # from the first round on: the run id, a slash, and what `{time}` in --log_dir stands for

    def seat_of(self, node: str) -> int:
        """A node's number in the round, -1 for none."""
        return next((number for number, seat in enumerate(self.seats) if seat.node == node), -1)

    def is_spare(self, node: str) -> bool:
        return any(row.node == node for row in self.spares)

    def follows(self, earlier: JobState | None) -> bool:
        return earlier is None or self.place >= earlier.place

    def asks(self, kind: str) -> bool:
        return self.question is not None and self.question.kind == kind

    def begin(self, seats: tuple[Seat, ...], run_name: str, since_last: float) -> JobState:
        """The job state in which this round runs. `since_last`: seconds since the start of the last one, if any."""
        elapsed = self.elapsed + round(since_last, 3) if self.seats else 0.0
        job = replace(self, phase=RUNNING, seats=seats, why="", failures=(), join_status="")
        return replace(job, run_name=self.run_name or run_name, elapsed=elapsed)

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


def next_round(
    last: JobState,
    why: str,
    culprit: FailedWorker | None,
    restarts: tuple[PastRestart, ...],
    *,
    left: tuple[str, ...],
    delay: float,
) -> JobState:
    """The job state in which nodes gather for the next round. `culprit`: the restart is counted."""
    return replace(
        last,
        phase=GATHERING,
        round=last.round + 1,
        attempt=last.attempt + (culprit is not None),
        why=why,
        failures=(culprit,) if culprit else (),
        join_status="",
        delay=delay,
        slow=(),
        question=None,
        left=left,
        restarts=restarts,
    )


def take_seat(node: str, record: NodeRecord) -> Seat:
    return Seat(node, record.host, record.address, record.ports, record.workers_by_role, record.control, record.copier)


def encode_state(job_state: JobState) -> bytes:
    """Compressed, because it is sent to every node: 4,096 nodes times 250 KB would be a gigabyte."""
    return zlib.compress(msgspec.json.encode(job_state), 1)


def decode_state(data: bytes) -> JobState | None:
    """Returns None if it is invalid, or larger than any job needs."""
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(data, LARGEST)
        job_state = decode_json(text, JobState)
    except (zlib.error, BadMessage):
        return None
    lacks_question = job_state.phase == DECIDING and job_state.question is None
    return job_state if job_state.phase in PHASES and not lacks_question else None
