"""What each framework reads from its environment: one small file each, from a worker's plan to variables.

A framework is a file with a FRAMEWORK and its name in REGISTRY. The comment at a variable is its meaning in
docs/reference/variables.md.
"""

from __future__ import annotations

from flota.job.plan import WorkerPlan
from flota.job.roles import COLLECTIVE, MIXED, RPC
from flota.job.roster import endpoint
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flota.job.plan import Worker
    from flota.job.roster import Roster
    from flota.job.spec import JobSpec

    Variables = Callable[[JobSpec, Roster, Worker], dict[str, str]]
    Backup = Callable[[JobSpec, Roster, Worker], tuple[str, dict[str, str]] | None]

REGISTRY = ("torch", "paddle", "jax", "tensorflow")  # also the default of --framework
KEPT = ("POD_NAME", "TORCH_NCCL_ASYNC_ERROR_HANDLING")  # the platform and the user know better
SECRETS = ("FLOTA_TOKEN", "FLOTA_TOKEN_FILE", "FLOTA_ETCD_PASSWORD", "FLOTA_ETCD_PASSWORD_FILE")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class Framework(NamedTuple):
    """One framework: what its workers are given, and what differs where it is the only one that is asked for."""

    title: str  # as its makers write it
    variables: Variables
    shown: tuple[str, ...]  # the variables that are printed at the start
    may_be_left_out: str = ""  # a variable that not all numbers of workers fit into
    short: str = ""  # another name in --framework
    shown_for_all: bool = False  # the start shows no other framework's
    backup: Backup | None = None  # a file, and the variables in it that are too long for the environment
    moved_alone: tuple[str, ...] = ()  # inherited variables that become NAME_original
    all_devices_alone: bool = False  # it is told indices into all visible devices, so that they stay visible


def load(name: str) -> Framework:
    framework: Framework = __import__(f"flota.frameworks.{name}", fromlist=["FRAMEWORK"]).FRAMEWORK
    return framework


def equip(spec: JobSpec, roster: Roster, worker: Worker, environ: Mapping[str, str], channel: str = "") -> WorkerPlan:
    """The worker with all the variables it gets, on top of the node's own environment."""
    frameworks = [load(name) for name in spec.frameworks]
    alone = frameworks[0] if len(frameworks) == 1 else None
    given: dict[str, str] = {}
    for framework in frameworks:
        given.update(framework.variables(spec, roster, worker))
    if spec.mode == MIXED:
        from flota.frameworks.parameter_servers import ps_lite_variables

        given.update(ps_lite_variables(spec, roster, worker))
    given.update(_own_variables(spec, roster, worker))
    if spec.interface:
        told = interface_variables(spec.interface)
        given.update({name: value for name, value in told.items() if name not in environ})
    given = {name: value for name, value in given.items() if name not in KEPT or name not in environ}
    if spec.threads and (spec.threads_given or "OMP_NUM_THREADS" not in environ):
        # OMP_NUM_THREADS: not touched when it is set already, unless `--threads` is given
        given["OMP_NUM_THREADS"] = str(spec.threads)
    if channel:
        given["FLOTA_CHANNEL"] = channel
    # FLOTA_GIVEN: the names of all these variables: a flota inside a worker does not take them for its own settings
    given["FLOTA_GIVEN"] = ",".join(given)
    # PYTHONUNBUFFERED: output appears at once; kept when it is set already
    # PYTHONFAULTHANDLER: a crash leaves a traceback in the log; kept when it is set already
    env = {name: "1" for name in ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER") if name not in environ}
    env.update(_visible_devices(spec, worker, narrow=not (alone and alone.all_devices_alone)))
    moved = alone.moved_alone if alone else ()
    env.update({f"{name}_original": environ[name] for name in moved if name in environ})
    env.update({} if moved else _direct_connections(roster, environ))
    env.update(given)
    env.update(spec.env)
    env.update(spec.all_roles[worker.role].env)
    return WorkerPlan(worker, env, SECRETS + moved)


def shown_variables(spec: JobSpec, env: Mapping[str, str]) -> list[str]:
    """What the start shows of a worker's variables: those of one framework that stands for all, or of each."""
    frameworks = [load(name) for name in spec.frameworks]
    leading = [framework for framework in frameworks if framework.shown_for_all] or frameworks
    return [name for framework in leading for name in framework.shown if name in env]


def left_out(spec: JobSpec, env: Mapping[str, str]) -> list[str]:
    """Variables that a job of equal workers lacks because they would be too long."""
    names = [load(name).may_be_left_out for name in spec.frameworks if spec.mode == COLLECTIVE]
    return [name for name in names if name and name not in env]


def backups(spec: JobSpec, roster: Roster, worker: Worker) -> list[tuple[str, dict[str, str]]]:
    """Files that frameworks read where a variable is too long for the environment, and the variables in them."""
    made = [framework.backup(spec, roster, worker) for name in spec.frameworks if (framework := load(name)).backup]
    return [backup for backup in made if backup]


def master_endpoint(spec: JobSpec, roster: Roster, worker: Worker, framework: str) -> str:
    """Where the workers of a role connect: the main role's at a port of its own, others at their first worker's."""
    master = roster.master(worker.role)
    if worker.role == spec.main:
        return endpoint(master.address, getattr(master.ports, framework))
    return roster.endpoints(spec.first_of(worker.name))[0]


def interface_variables(interface: str) -> dict[str, str]:
    """Names the network interface to libraries that would otherwise look up the hostname."""
    return {
        # GLOO_SOCKET_IFNAME: the network interface for gloo, in torch and in Paddle; kept when it is set already
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,  # the same for NCCL; kept when it is set already
        "TP_SOCKET_IFNAME": interface,  # the same for torch's RPC; kept when it is set already
    }


def _own_variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    given = {
        "FLOTA_RANK": str(worker.rank),  # the worker's number in the job
        "FLOTA_LOCAL_RANK": str(worker.local_rank),  # its number on this machine
        "FLOTA_WORLD_SIZE": str(worker.size),  # workers in the job
        "FLOTA_LOCAL_WORLD_SIZE": str(worker.local_size),  # workers on this machine
        "FLOTA_NODE_RANK": str(worker.seat),  # this machine's number
        "FLOTA_NODES": str(len(roster.seats)),  # machines in the job
        # FLOTA_ROLE: what the worker is for; `trainer` in a job without [roles](../guides/roles.md)
        "FLOTA_ROLE": worker.name,
        "FLOTA_ROLE_RANK": str(worker.rank),  # its number in its role
        "FLOTA_ATTEMPT": str(roster.attempt),  # counted restarts so far
        "FLOTA_ROUND": str(roster.round),  # the number of this start of the job's workers, from 0
        "FLOTA_JOB_ID": spec.job_id,  # `--job_id`
        # FLOTA_MASTER: an address and a free port for the job's own use; the same port as `MASTER_PORT`
        "FLOTA_MASTER": master_endpoint(spec, roster, worker, "torch"),
        # FLOTA_DEVICE: the worker's devices as listed in the visible ones, or `cpu`
        "FLOTA_DEVICE": ",".join(worker.devices) or "cpu",
        "FLOTA_LOG_DIR": spec.log.directory,  # `--log_dir` as a whole path
        "NODE_RANK": str(worker.seat),  # this machine's number, for accelerate and Lightning
    }
    if spec.mode not in (COLLECTIVE, RPC):
        given["FLOTA_ENDPOINT"] = roster.endpoints(worker.role)[worker.number]
        # Where each role's workers are, for scripts that talk to another role's.
        for number, role in enumerate(spec.all_roles):
            name = "".join(letter if letter.isalnum() else "_" for letter in role.name).upper()
            before = given.get(f"FLOTA_ENDPOINTS_{name}")  # the stages of one role come one after the other
            listed = [before] if before else []
            given[f"FLOTA_ENDPOINTS_{name}"] = ",".join([*listed, *roster.endpoints(number)])
    return given


def _visible_devices(spec: JobSpec, worker: Worker, *, narrow: bool) -> dict[str, str]:
    """The list of visible devices, when it is not the inherited one.

    Frameworks count from 0 in what they see, so with `--devices 2,3` they must see 2 and 3 only: `narrow`.
    """
    # CUDA_VISIBLE_DEVICES: set when `--devices` or `--virtual-local-rank` narrows it; other kinds have their own
    role = spec.all_roles[worker.role]
    devices = spec.devices_for(role)
    if (spec.virtual_local_rank or role.private) and worker.devices:
        return {devices.variable: ",".join(worker.devices)}
    if devices.narrowed and (narrow or not devices.chosen):
        return {devices.variable: ",".join(devices.chosen)} if devices.variable else {}
    return {}


def _direct_connections(roster: Roster, environ: Mapping[str, str]) -> dict[str, str]:
    """Proxies stay, as scripts download data; the job's own addresses go around them."""
    if not any(environ.get(name) for name in PROXIES):
        return {}
    addresses = ["localhost", "127.0.0.1", *(seat.address for seat in roster.seats)]
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    around = [*filter(None, listed.split(",")), *addresses]
    value = ",".join(dict.fromkeys(around))
    return {"no_proxy": value, "NO_PROXY": value}
