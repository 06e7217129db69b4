"""What a node answers about its job and about itself: the values of the control API.

docs/reference/control.md describes them for other programs: fields are added, and never renamed or removed. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from flota.job.report import NO_STEP
from flota.job.roles import TRAINER

VERSION = 1
OFFSET = "flota-offset"  # the header with the offset at which a part of a file begins
# States of a job, and of a rank.
WAITING, RUNNING, RESTARTING, STOPPING, ENDED = "waiting", "running", "restarting", "stopping", "ended"
SPARE = "spare"  # a node that waits to replace another
STARTING, DONE, FAILED, STOPPED = "starting", "done", "failed", "stopped"


class NodePlace(Struct, frozen=True):
    """One node of the running round, or a spare, which has seat -1; and the endpoint at which it can be asked; empty:
    it cannot be."""

    seat: int
    host: str
    address: str = ""
    endpoint: str = ""


class RestartStatus(Struct, frozen=True):
    """`at`: seconds since 1970."""

    round: int
    at: float
    reason: str
    counted: bool = True
    lost: tuple[str, ...] = ()


class SlowStatus(Struct, frozen=True):
    """A rank whose steps take `factor` times as long as those of the others."""

    rank: int
    host: str
    factor: float
    role: str = TRAINER


class JobStatus(Struct, frozen=True):
    """`began`, `now`: seconds since 1970, by this node's clock."""

    version: int
    job_id: str
    state: str
    round: int = 0
    attempt: int = 0
    restart_limit: int = 0
    began: float = 0.0
    now: float = 0.0
    world_size: int = 0
    log_dir: str = ""
    directory: str = ""  # in which flota was started
    command: tuple[str, ...] = ()
    nodes: tuple[NodePlace, ...] = ()
    restarts: tuple[RestartStatus, ...] = ()
    slow: tuple[SlowStatus, ...] = ()
    message: str = ""  # what the job waits for, for people
    spares: tuple[NodePlace, ...] = ()  # nodes that wait to replace others
    run: str = ""  # the same on all nodes of the job; empty: it has one node


class RankStatus(Struct, frozen=True):
    """One worker. `heartbeat`: seconds since the last one; None: there was none. `cpu`: seconds used so far; `memory`:
    bytes; both with the processes that it has started itself. `device_use`: how busy its devices are, in percent; None:
    unknown."""

    rank: int
    role: str = TRAINER
    local_rank: int = 0
    devices: tuple[str, ...] = ()
    pid: int = 0
    state: str = STARTING
    exit_code: int | None = None
    started: float = 0.0
    step: int = NO_STEP
    total: int = 0
    step_seconds: float = 0.0
    heartbeat: float | None = None
    numbers: dict[str, float | None] = {}  # None: infinite, or not a number; JSON has neither
    cpu: float = 0.0
    memory: int = 0
    logs: tuple[str, ...] = ()
    device_use: float | None = None


class NodeStatus(Struct, frozen=True):
    """One node and its ranks. `load`: the average of a minute; memory in bytes. `store_seconds`: how long its last
    request to the store took; None on one machine."""

    host: str
    pid: int
    seat: int = 0
    state: str = RUNNING
    address: str = ""
    cpus: int = 0
    load: float = 0.0
    memory: int = 0
    memory_used: int = 0
    ranks: tuple[RankStatus, ...] = ()
    store_seconds: float | None = None


class Status(Struct, frozen=True):
    """The answer to GET /v1/status."""

    job: JobStatus
    node: NodeStatus


class LogStatus(Struct, frozen=True):
    """One log of a rank. `file`: its number, as in RankStatus.logs. Files of a log are known by their inodes: `parts`
    are the inodes and sizes of all of them, the oldest first, and `start` is where this job's output begins."""

    rank: int
    role: str
    file: int
    path: str
    parts: tuple[tuple[int, int], ...]
    start: tuple[int, int] = (0, 0)


class NodeLogs(Struct, frozen=True):
    """The answer to GET /v1/logs. `now`: seconds since 1970, by this node's clock."""

    host: str
    seat: int
    state: str
    round: int
    now: float
    logs: tuple[LogStatus, ...]


class Done(Struct, frozen=True):
    """The answer to a request that acts."""

    message: str


class Problem(Struct, frozen=True):
    """The answer to a request that is refused."""

    error: str
