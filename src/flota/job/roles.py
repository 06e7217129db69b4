"""What workers are for. A job is one role of equal trainers, or several: each with a count, a command, and a rule for
what its ending means. Parameter servers, heterogeneous workers and any other mixture are rows of this one table. Pure.
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
    """One role on this node. Where the user has listed addresses, `endpoints` are all of the job's and `own` the
    numbers of this node's among them.
    """

    name: str
    workers: int
    serves: bool = False  # it runs until the others are done, and is ended then
    on_failure: str = RESTART  # as the job's policy says; end the job all the same; or go on without it
    endpoints: tuple[str, ...] = ()
    own: tuple[int, ...] = ()
    lead: int = 0  # the seat of number 0, where addresses are listed
    command: Command | None = None  # None: the job's
    devices: DeviceSet | None = None  # None: the job's
    private: bool = False  # each worker sees its own device only
    env: tuple[tuple[str, str], ...] = ()
    stage: int = 0  # of a heterogeneous pipeline
    device_kind: str = ""  # what such a stage computes on


def in_order(roles: list[Role]) -> tuple[Role, ...]:
    """As they start: those that serve come before those that need them."""
    return tuple(sorted(roles, key=lambda role: not role.serves))


def log_stem(name: str) -> str:
    """`workerlog` for trainers, as users know it."""
    return "workerlog" if name == TRAINER else f"{name}log"


def label(name: str, rank: int) -> str:
    """How people are told of a worker."""
    return f"rank {rank}" if name == TRAINER else f"{name} {rank}"
