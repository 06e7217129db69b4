"""What the user asks for: one immutable value, made by cli, read by everything after it. Pure."""

from __future__ import annotations

from flota.job.roles import COLLECTIVE, TRAINER, Role
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.nodes import NodesSpec

OUT, ERR = 1, 2
LEARNT = -1.0  # a timeout that the job itself teaches


class Command(NamedTuple):
    """What a worker runs."""

    kind: str  # script, module or program
    target: str
    args: tuple[str, ...]
    python: str


class DeviceSet(NamedTuple):
    """The accelerators of one node: what is visible, and which of them the job uses."""

    kind: str  # gpu, xpu, npu, mlu … or cpu for none
    variable: str  # the variable that lists the visible ones
    visible: tuple[str, ...]
    chosen: tuple[str, ...]
    by_id: bool  # chosen by the user, not by default

    @property
    def narrowed(self) -> bool:
        return self.chosen != self.visible


NO_DEVICES = DeviceSet("cpu", "", (), (), by_id=False)


class LogSpec(NamedTuple):
    """Where workers' output goes and what of it is shown."""

    directory: str  # as long as there is `per_run`, the one above it
    level: str = "INFO"
    overwrite: bool = False
    max_size: int | None = None
    backups: int = 5
    timestamps: bool = False
    console: str | tuple[int, ...] = (0,)
    only: tuple[int, ...] | None = None  # of what would be shown, these ranks
    redirects: int | tuple[tuple[int, int], ...] | None = None
    tee: int | tuple[tuple[int, int], ...] | None = None
    stdout_filters: tuple[str, ...] = ()
    stderr_filters: tuple[str, ...] = ()
    events_on_console: bool = False
    verbose: bool = False  # the settings at the start, and all that is known of all workers that failed
    quiet: bool = False  # of flota's own lines, show only errors
    per_run: str = ""  # a path below the directory whose placeholders are not replaced yet: job/log_template.py
    latest: str = ""  # the link to the directory of the last run

    def shows(self, rank: int) -> bool:
        if self.only is not None and rank not in self.only:
            return False
        return self.console == "all" if isinstance(self.console, str) else rank in self.console

    def split(self, rank: int) -> int:
        """Which of a rank's streams (OUT, ERR, both) have files of their own."""
        return _mask(self.redirects, rank) | _mask(self.tee, rank)

    def teed(self, rank: int) -> int:
        """Which streams with files of their own are shown."""
        return _mask(self.tee, rank) if self.only is None or rank in self.only else 0


def _mask(wish: int | tuple[tuple[int, int], ...] | None, rank: int) -> int:
    if wish is None:
        return 0
    return wish if isinstance(wish, int) else dict(wish).get(rank, 0)


class RestartPolicy(NamedTuple):
    """Whether and how often failed workers are started again."""

    limit: int = 3
    enabled: bool = False
    elastic_level: int = -1
    restart_on: tuple[str, ...] = ()  # nothing else; none: whatever is not better left alone
    no_restart_on: tuple[str, ...] = ()
    backoff: float = 30.0  # seconds to wait at the most
    crash_loop: int = 5  # failures of one kind in a row without progress that end the job; 0: none do


class JobSpec(NamedTuple):
    """One job as asked for on this node. `workers`: all that it starts here, whatever their role."""

    command: Command
    workers: int
    log: LogSpec
    job_id: str = "default"
    devices: DeviceSet = NO_DEVICES
    address: str = "127.0.0.1"
    port_range: tuple[int, int] | None = None
    start_port: int | None = None
    restarts: RestartPolicy = RestartPolicy()
    grace: float = 30.0
    join_timeout: float = 600.0  # how long a restart waits for ports that the user has chosen
    hang_timeout: float | None = None  # None: not looked for
    native_stacks: bool = False
    preempt_signal: str = ""  # asks for the same as SIGTERM
    preempt_timeout: float | None = None  # None: the grace
    stop_signals: tuple[str, ...] = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    frameworks: tuple[str, ...] = ()  # whose variables workers get
    env: tuple[tuple[str, str], ...] = ()
    threads: int | None = None
    threads_given: bool = False
    backend: str = "auto"
    role: str = "default"
    interactive: bool = False
    warm: tuple[str, ...] = ()  # modules that are imported once for all workers; none: every worker imports its own
    warm_memory: int | None = None  # bytes for parked interpreters; None: a part of what nobody uses
    legacy_local_rank: bool = False
    virtual_local_rank: bool = False
    nodes: NodesSpec | None = None  # None: this machine alone
    interface: str = ""  # the network interface workers must be told of, where the hostname would lead them astray
    mode: str = COLLECTIVE
    roles: tuple[Role, ...] = ()  # in the order in which they start; none: trainers alone
    gloo: str = "0"  # among trainers (1), or all (2)
    gloo_port: int | None = None  # None: any free one

    @property
    def all_roles(self) -> tuple[Role, ...]:
        """The job's roles, of which there is always one."""
        return self.roles or (Role(TRAINER, self.workers),)

    @property
    def main(self) -> int:
        """The role that the job is about: the first that does not serve another."""
        return next((number for number, role in enumerate(self.all_roles) if not role.serves), 0)

    def first_of(self, name: str) -> int:
        """The role of this name; of several stages the first."""
        return next(number for number, role in enumerate(self.all_roles) if role.name == name)

    @property
    def workers_by_role(self) -> tuple[int, ...]:
        """This node's; nothing to say where there is one role."""
        return tuple(role.workers for role in self.roles)

    def devices_for(self, role: Role) -> DeviceSet:
        return role.devices or self.devices
