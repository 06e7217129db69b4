"""The job as the user specifies it: one immutable value, created by cli and read by all other packages. Pure."""

from __future__ import annotations

from flota.job.roles import COLLECTIVE, TRAINER, Role
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.binding.modes import Binding
    from flota.chaos.faults import Faults
    from flota.job.nodes import NodesSpec

OUT, ERR = 1, 2
WARNING = "warning: "  # begins a note about the settings that is a warning
LEARNT = -1.0  # a timeout that is derived from the job's own pace


class Command(NamedTuple):
    """The command of a worker."""

    kind: str  # script, module or program
    target: str
    args: tuple[str, ...]
    python: str
    asks_jax: bool = False  # the script calls jax.distributed.initialize(), and JAX must find the other processes


class DeviceSet(NamedTuple):
    """The accelerators of one node: what is visible, and which of them the job uses."""

    kind: str  # gpu, xpu, npu, mlu …; cpu for none
    variable: str  # the variable that lists the visible ones
    visible: tuple[str, ...]
    chosen: tuple[str, ...]
    by_id: bool  # chosen by the user, not by default

    @property
    def narrowed(self) -> bool:
        return self.chosen != self.visible


NO_DEVICES = DeviceSet("cpu", "", (), (), by_id=False)


class MachineShare(NamedTuple):
    """The place of a node whose platform starts one node per worker, so that nodes of the job share a machine."""

    local_rank: int  # of this node's worker among all workers of the machine
    local_size: int
    machine: int
    machines: int


class LogSpec(NamedTuple):
    """Where workers' output is written, and which of it is shown."""

    directory: str  # as long as there is `per_run`, the one above it
    level: str = "INFO"
    overwrite: bool = False
    max_size: int | None = None
    backups: int = 5
    timestamps: bool = False
    console: str | tuple[int, ...] = (0,)
    only: tuple[int, ...] | None = None  # show no other ranks than these
    redirects: int | tuple[tuple[int, int], ...] | None = None
    tee: int | tuple[tuple[int, int], ...] | None = None
    stdout_filters: tuple[str, ...] = ()
    stderr_filters: tuple[str, ...] = ()
    prefix: str = ""  # torch's template for the beginning of lines on the console
    events_on_console: bool = False
    verbose: bool = False  # the settings at the start, and all that is known of all workers that failed
    quiet: bool = False  # of flota's own lines, show only errors
    shared_console: bool = False  # the consoles of all nodes end in one place
    progress: str = "auto"  # whether a status line is shown on a terminal: auto or none
    per_run: str = ""  # a path below the directory whose placeholders are not replaced yet: job/log_template.py
    latest: str = ""  # the link to the directory of the last run

    def shows(self, rank: int) -> bool:
        if self.only is not None and rank not in self.only:
            return False
        return self.console == "all" if isinstance(self.console, str) else rank in self.console

    def split(self, rank: int) -> int:
        """Return which streams of a rank (OUT, ERR or both) have separate files."""
        return _mask(self.redirects, rank) | _mask(self.tee, rank)

    def teed(self, rank: int) -> int:
        """Return which streams with separate files are shown."""
        return _mask(self.tee, rank) if self.only is None or rank in self.only else 0


def _mask(streams: int | tuple[tuple[int, int], ...] | None, rank: int) -> int:
    if streams is None:
        return 0
    return streams if isinstance(streams, int) else dict(streams).get(rank, 0)


class RestartPolicy(NamedTuple):
    """Whether and how often a job is restarted after a failure."""

    limit: int = 3
    enabled: bool = False
    elastic_level: int = -1
    restart_on: tuple[str, ...] = ()  # restart only for these causes; empty: for all that a restart may fix
    no_restart_on: tuple[str, ...] = ()
    backoff: float = 30.0  # the longest delay before a restart, in seconds
    crash_loop: int = 5  # end the job after this many equal failures in a row without progress; 0: never
    earlier: int = 0  # restarts by the scheduler before this run: attempts go on from there, and the limit as well

    @property
    def last_attempt(self) -> int:
        return self.earlier + self.limit


class JobSpec(NamedTuple):
    """The job as specified on this node. `workers` is the number of workers on this node, of all roles."""

    command: Command
    workers: int
    log: LogSpec
    job_id: str = "default"
    run_id: str = ""  # unique in each run, if the user gave no job id
    devices: DeviceSet = NO_DEVICES
    address: str = "127.0.0.1"
    port_range: tuple[int, int] | None = None
    start_port: int | None = None
    restarts: RestartPolicy = RestartPolicy()
    grace: float = 30.0
    restart_grace: float | None = None  # before a restart; None: the grace, but not more than a few seconds
    join_timeout: float = 600.0  # how long a restart waits for ports that the user chose
    hang_timeout: float | None = None  # None: hangs are not detected
    native_stacks: bool = False
    preempt_signal: str = ""  # handled like SIGTERM
    stop_at: float | None = None  # the time of day at which to stop as after SIGTERM
    preempt_timeout: float | None = None  # None: the grace
    timeout: float | None = None  # seconds from the job's first round on after which to stop as after SIGTERM
    stop_signals: tuple[str, ...] = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    frameworks: tuple[str, ...] = ()  # frameworks whose variables workers get
    env: tuple[tuple[str, str], ...] = ()
    misplaced: tuple[str, ...] = ()  # flags of flota among the script's arguments, which the script may know as well
    instance_env: tuple[tuple[str, str], ...] = ()  # of poprun's first instance: shown at the start, not set
    threads: int | None = None
    threads_given: bool = False
    bindings: tuple[Binding, ...] = ()  # of this node's workers in start order; empty: workers are not bound to CPUs
    backend: str = "auto"
    role: str = "default"
    interactive: bool = False
    view: bool = False  # show the job on the terminal, as flota top does
    warm: tuple[str, ...] = ()  # modules to import in advance; empty: each worker imports its own
    warm_memory: int | None = None  # bytes for parked interpreters; None: a part of the available memory
    snapshot_memory: int | None = None  # bytes for states of all ranks; None: a part of the available memory
    snapshot_copies: int = 1  # other nodes that get a copy of each rank's part of a state
    snapshot_dir: str = ""  # where nodes write states; empty: nowhere
    snapshot_every: float = 600.0
    legacy_local_rank: bool = False
    virtual_local_rank: bool = False
    nodes: NodesSpec | None = None  # None: this machine only
    share: MachineShare | None = None  # None: this node is the only one of the job on its machine
    interface: str = ""  # the network interface for workers, if the hostname resolves to an unreachable address
    mode: str = COLLECTIVE
    roles: tuple[Role, ...] = ()  # in start order; empty: trainers only
    gloo: str = "0"  # 1: among trainers; 2: among all workers
    gloo_port: int | None = None  # None: any free one
    on_event: str = ""  # a shell command that is run when something happens: see run/event_command.py
    dashboard: tuple[str, int] | None = None  # where to serve the page; None: it is not served
    chaos: Faults | None = None  # faults to inject: see chaos/
    lifeline: int = -1  # a descriptor whose end stops this node: see host/lifeline.py

    @property
    def all_roles(self) -> tuple[Role, ...]:
        """The job's roles, at least one."""
        return self.roles or (Role(TRAINER, self.workers),)

    @property
    def main(self) -> int:
        """The main role: the first that does not serve another."""
        return next((number for number, role in enumerate(self.all_roles) if not role.serves), 0)

    def first_of(self, name: str) -> int:
        """Return the first role with this name; stages of a pipeline share a name."""
        return next(number for number, role in enumerate(self.all_roles) if role.name == name)

    @property
    def workers_by_role(self) -> tuple[int, ...]:
        """This node's workers by role; empty if the job does not define roles."""
        return tuple(role.workers for role in self.roles)

    def devices_for(self, role: Role) -> DeviceSet:
        return role.devices or self.devices
