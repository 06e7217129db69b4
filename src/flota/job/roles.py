"""The roles of workers. A job has one role of equal trainers, or several roles, each with a count, a command and a rule
for what an exit means: parameter servers, heterogeneous workers, or any other combination. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.spec import Command, DeviceSet

TRAINER, SERVER, HETER, COORDINATOR = "trainer", "server", "heter", "coordinator"
COLLECTIVE, PS, PS_HETER, RPC, MIXED = "collective", "ps", "ps-heter", "rpc", "mixed"  # modes
ON_FAILURE = RESTART, END, IGNORE = "restart", "end", "ignore"


class Role(NamedTuple):
    """One role on this node. If the user lists addresses, `endpoints` has all of the job and `own` the indices of those
    on this node.
    """

    name: str
    workers: int
    serves: bool = False  # it runs until the other roles are done, and is stopped a second later
    on_failure: str = RESTART  # RESTART: follow the job's policy; END: end the job; IGNORE: continue without the worker
    endpoints: tuple[str, ...] = ()
    own: tuple[int, ...] = ()
    lead: int = 0  # the seat of its rank 0, if addresses are listed
    command: Command | None = None  # None: the job's
    devices: DeviceSet | None = None  # None: the job's
    private: bool = False  # each worker sees only its own device
    env: tuple[tuple[str, str], ...] = ()
    stage: int = 0  # of a heterogeneous pipeline
    device_kind: str = ""  # the device type of such a stage


def in_start_order(roles: list[Role]) -> tuple[Role, ...]:
    """Sort roles so that servers start before the workers that use them."""
    return tuple(sorted(roles, key=lambda role: not role.serves))


def log_stem(name: str) -> str:
    """Return the first part of a log's file name; `workerlog` for trainers, as in Paddle."""
    return "workerlog" if name == TRAINER else f"{name}log"


def label(name: str, rank: int) -> str:
    """Return a worker's name in messages."""
    return f"rank {rank}" if name == TRAINER else f"{name} {rank}"
