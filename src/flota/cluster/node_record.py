"""What a node publishes about itself: one record, under a key that only this node and its shepherd write. Pure."""

from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from flota.cluster.differences import NodeFacts
from flota.failures.roll_call import is_sound_failure
from flota.job.nodes import ONE_NODE
from flota.job.printable import are_printable
from flota.job.report import FailedWorker
from flota.job.roles import COLLECTIVE
from flota.job.roster import Ports
from flota.job.survey_outcomes import Question
from flota.snapshots.agreement import HeldSnapshot, is_sound_holding
from flota.store.decoding import BadMessage, decode_json
from flota.stragglers.detector import StepTime, is_step_time

READY, RUNNING, DONE, FAILED, LEAVING = "ready", "running", "done", "failed", "leaving"
SERVING = "serving"  # its work is done, or it has none; its servers still serve other nodes
DEAD = "dead"  # written by its shepherd
RESTART = "restart"  # a request of a user, for the round whose number it has
FORBIDDEN = set(" ,;/@'\"")
MOST_ROUNDS = 1 << 31  # and questions


class Answer(Struct, frozen=True):
    """The answer to the question `id`. `body`: of the type in the row of cluster/questions.py."""

    id: int
    kind: str
    body: Raw


class NodeRecord(Struct, frozen=True, omit_defaults=True):
    """`ports` are newly reserved for `round`, and `state` is of that round. `roles`: all roles of the job, and
    `workers_by_role`: this node's workers in each; empty if there are only trainers.
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
    roles: tuple[str, ...] = ()
    workers_by_role: tuple[int, ...] = ()
    spares: int = 0
    mode: str = COLLECTIVE
    agreed: str = ""  # a checksum of other settings that must be the same on all nodes
    state: str = READY
    round: int = 0
    failures: tuple[FailedWorker, ...] = ()
    signal: int = 0  # the signal that asked this node to leave
    can_stop: bool = False  # while leaving: its workers can save and exit on their own
    scope: str = ONE_NODE  # while leaving: what that is for
    timed_out: str = ""  # while leaving: the --timeout that has passed
    stopped_by: str = ""  # while leaving: what asked this node, for example SIGUSR1, which acts like SIGTERM
    idle: float = 0.0  # seconds for which its workers have made no progress
    timeout: float = 0.0  # its hang timeout
    steps: tuple[StepTime, ...] = ()  # step times of ranks that report them
    answer: Answer | None = None
    # What users of this node want: questions to be asked, each with a number above this one; the end of a round.
    requests: dict[str, int] = {}
    facts: NodeFacts | None = None
    joined: float = 0.0  # the time of day by its clock when it first had a record
    unreached: str = ""  # the next node of the round and its address, if this node cannot reach it
    warming: bool = False  # its interpreters still import: until then, its workers would start cold
    control: str = ""  # the port at which this node can be asked about the job; empty: none
    run_name: str = ""  # the job state's, for a coordinator that has seen none
    snapshots: tuple[HeldSnapshot, ...] = ()  # the states that this node has, when it offers its ports for a round
    copier: str = ""  # the port at which other nodes fetch and send states; empty: none

    @property
    def workers(self) -> int:
        return len(self.ports.workers)


class Present(Struct, frozen=True):
    """A record as the coordinator sees it: its node, the store's revisions at which it was created and last modified,
    and the decoded `body` of its answer.
    """

    node: str
    created: int
    record: NodeRecord
    modified: int = 0
    body: Any = None

    def answers(self, question: Question) -> bool:
        answer = self.record.answer
        return answer is not None and (answer.id, answer.kind) == (question.id, question.kind)


def without_rank(one: Present) -> Present:
    return replace(one, record=replace(one.record, rank=-1))


def is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536


def encode_record(record: NodeRecord) -> bytes:
    return msgspec.json.encode(record)


def decode_record(data: bytes) -> NodeRecord | None:
    """Returns None if it is invalid: any client with the token can write anything."""
    try:
        record = decode_json(data, NodeRecord)
    except BadMessage:
        return None
    return record if is_sound(record) else None


def is_sound(record: NodeRecord) -> bool:
    """Whether it is safe to use: its values go to the terminals of all nodes, and into the environment of workers."""
    names = [record.job, record.host, record.address, record.mode, record.agreed, *record.frameworks, *record.roles]
    workers, *masters = record.ports
    asked = (record.answer.id if record.answer else 0), *record.requests.values()
    return (
        are_printable([*names, *record.requests, record.run_name, record.unreached, record.timed_out])
        and (record.facts is None or are_printable(record.facts.texts))
        and not set(record.address) & FORBIDDEN
        and all(map(is_sound_failure, record.failures))
        and all(map(is_step_time, record.steps))
        and (record.state != FAILED or bool(record.failures))
        and record.workers > 0
        and len(record.workers_by_role) == len(record.roles)
        and min(record.workers_by_role, default=0) >= 0
        and sum(record.workers_by_role) == (record.workers if record.roles else 0)
        and all(is_port(port) for port in (*workers, *masters, *([record.control] if record.control else [])))
        and are_printable([held.role for held in record.snapshots])
        and is_sound_holding(record.snapshots)
        and (not record.copier or is_port(record.copier))
        and max(record.round, *asked) < MOST_ROUNDS  # other nodes count up from them
    )
