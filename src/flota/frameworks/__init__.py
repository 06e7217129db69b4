"""The environment variables that each framework reads: one module per framework computes them from a worker's plan.

A framework is a module with a FRAMEWORK, and its name in REGISTRY. The comment on a variable is its description in
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
KEPT = ("POD_NAME", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "JAX_LOCAL_DEVICE_IDS")  # not changed if set
SECRETS = ("FLOTA_TOKEN", "FLOTA_TOKEN_FILE", "FLOTA_ETCD_PASSWORD", "FLOTA_ETCD_PASSWORD_FILE")
# Not inherited by workers: the file that flota itself writes, and the memory of a worker that runs flota.
OF_FLOTA = ("TORCHELASTIC_ERROR_FILE", "FLOTA_SNAPSHOT", "FLOTA_SNAPSHOT_FROM")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class Framework(NamedTuple):
    """One framework: the variables of its workers, and what differs if it is the only one in --framework."""

    title: str  # its official name
    variables: Variables
    shown: tuple[str, ...]  # the variables that are printed at the start
    may_be_left_out: str = ""  # a variable that is too long for large jobs
    short: str = ""  # an alias in --framework
    shown_for_all: bool = False  # the start shows this framework's variables only
    backup: Backup | None = None  # a file for variables that are too long for the environment
    moved_alone: tuple[str, ...] = ()  # if it is the only one: inherited variables that become NAME_original
    all_devices_alone: bool = False  # if it is the only one: workers see all visible devices, and use indices


def load(name: str) -> Framework:
    framework: Framework = __import__(f"flota.frameworks.{name}", fromlist=["FRAMEWORK"]).FRAMEWORK
    return framework


def add_variables(
    spec: JobSpec, roster: Roster, worker: Worker, environ: Mapping[str, str], channel: str = ""
) -> WorkerPlan:
    """Return the worker with the variables that are added to the node's environment for it."""
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
        names = interface_variables(spec.interface)
        given.update({name: value for name, value in names.items() if name not in environ})
    given = {name: value for name, value in given.items() if name not in KEPT or name not in environ}
    threads = (worker.binding and worker.binding.threads) or spec.threads
    if threads and (spec.threads_given or "OMP_NUM_THREADS" not in environ):
        # OMP_NUM_THREADS: threads per worker; not changed if already set, unless `--threads` is given
        given["OMP_NUM_THREADS"] = str(threads)
    if channel:
        given["FLOTA_CHANNEL"] = channel
    # FLOTA_GIVEN: the names of all these variables, so that a flota inside a worker does not use them as settings
    given["FLOTA_GIVEN"] = ",".join(given)
    # PYTHONUNBUFFERED: output appears immediately; not changed if already set
    # PYTHONFAULTHANDLER: a crash leaves a traceback in the log; not changed if already set
    env = {name: "1" for name in ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER") if name not in environ}
    env.update(_visible_devices(spec, worker, narrow=not (alone and alone.all_devices_alone)))
    moved = alone.moved_alone if alone else ()
    env.update({f"{name}_original": environ[name] for name in moved if name in environ})
    env.update({} if moved else _direct_connections(roster, environ))
    env.update(given)
    env.update(spec.env)
    env.update(spec.all_roles[worker.role].env)
    return WorkerPlan(worker, env, (*SECRETS, *OF_FLOTA, *moved))


def shown_variables(spec: JobSpec, env: Mapping[str, str]) -> list[str]:
    """Return the variables to show at the start: those of a framework with `shown_for_all`, or of each framework."""
    frameworks = [load(name) for name in spec.frameworks]
    leading = [framework for framework in frameworks if framework.shown_for_all] or frameworks
    return [name for framework in leading for name in framework.shown if name in env]


def left_out(spec: JobSpec, env: Mapping[str, str]) -> list[str]:
    """Return the variables that are not set because they would be too long."""
    names = [load(name).may_be_left_out for name in spec.frameworks if spec.mode == COLLECTIVE]
    return [name for name in names if name and name not in env]


def backups(spec: JobSpec, roster: Roster, worker: Worker) -> list[tuple[str, dict[str, str]]]:
    """Return the files that frameworks read if a variable is too long for the environment, with these variables."""
    made = [framework.backup(spec, roster, worker) for name in spec.frameworks if (framework := load(name)).backup]
    return [backup for backup in made if backup]


def master_endpoint(spec: JobSpec, roster: Roster, worker: Worker, framework: str) -> str:
    """Return where workers of a role connect: a separate port for the main role, or its first worker's endpoint."""
    master = roster.master(worker.role)
    if worker.role == spec.main:
        return endpoint(master.address, getattr(master.ports, framework))
    return roster.endpoints(spec.first_of(worker.name))[0]


def interface_variables(interface: str) -> dict[str, str]:
    """Set the network interface for libraries that would otherwise resolve the hostname."""
    return {
        # GLOO_SOCKET_IFNAME: the network interface for gloo, in torch and Paddle; not changed if already set
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,  # the same for NCCL; not changed if already set
        "TP_SOCKET_IFNAME": interface,  # the same for torch's RPC; not changed if already set
    }


def _own_variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    given = {
        "FLOTA_RANK": str(worker.rank),  # the worker's rank in the job
        "FLOTA_LOCAL_RANK": str(worker.local_rank),  # the worker's rank on this machine
        "FLOTA_WORLD_SIZE": str(worker.size),  # number of workers in the job
        "FLOTA_LOCAL_WORLD_SIZE": str(worker.local_size),  # number of workers on this machine
        "FLOTA_NODE_RANK": str(worker.machine),  # the rank of this machine
        "FLOTA_NODES": str(worker.machines),  # number of machines in the job
        # FLOTA_ROLE: the worker's role; `trainer` in a job without [roles](../guides/roles.md)
        "FLOTA_ROLE": worker.name,
        "FLOTA_ROLE_RANK": str(worker.rank),  # the worker's rank in its role
        "FLOTA_ATTEMPT": str(roster.attempt),  # number of counted restarts so far
        "FLOTA_ROUND": str(roster.round),  # number of the round, from 0; each start of the workers is a round
        "FLOTA_JOB_ID": spec.job_id,  # `--job_id`
        # FLOTA_MASTER: an address and a free port for the job's own use; the port is that of `MASTER_PORT`
        "FLOTA_MASTER": master_endpoint(spec, roster, worker, "torch"),
        # FLOTA_DEVICE: the worker's devices, as listed in the variable of visible devices, or `cpu`
        "FLOTA_DEVICE": ",".join(worker.devices) or "cpu",
        "FLOTA_LOG_DIR": spec.log.directory,  # `--log_dir` as an absolute path
        "NODE_RANK": str(worker.machine),  # the rank of this machine, for accelerate and Lightning
    }
    if spec.mode not in (COLLECTIVE, RPC):
        given["FLOTA_ENDPOINT"] = roster.endpoints(worker.role)[worker.number]
        # The endpoints of all roles, for scripts that connect to workers of another role.
        for number, role in enumerate(spec.all_roles):
            name = "".join(letter if letter.isalnum() else "_" for letter in role.name).upper()
            before = given.get(f"FLOTA_ENDPOINTS_{name}")  # the stages of a role share its variable
            listed = [before] if before else []
            given[f"FLOTA_ENDPOINTS_{name}"] = ",".join([*listed, *roster.endpoints(number)])
    return given


def _visible_devices(spec: JobSpec, worker: Worker, *, narrow: bool) -> dict[str, str]:
    """Return the variable of visible devices if it differs from the inherited one.

    Frameworks number the visible devices from 0, so with `--devices 2,3` they must see only 2 and 3: `narrow`.
    """
    # CUDA_VISIBLE_DEVICES: set if `--devices` or `--virtual-local-rank` narrows it; other kinds have their own
    role = spec.all_roles[worker.role]
    devices = spec.devices_for(role)
    if (spec.virtual_local_rank or role.private) and worker.devices:
        return {devices.variable: ",".join(worker.devices)}
    if devices.narrowed and (narrow or not devices.chosen):
        return {devices.variable: ",".join(devices.chosen)} if devices.variable else {}
    return {}


def _direct_connections(roster: Roster, environ: Mapping[str, str]) -> dict[str, str]:
    """Exclude the job's addresses from proxies. The proxies stay set, because scripts download data."""
    if not any(environ.get(name) for name in PROXIES):
        return {}
    addresses = ["localhost", "127.0.0.1", *(seat.address for seat in roster.seats)]
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    around = [*filter(None, listed.split(",")), *addresses]
    value = ",".join(dict.fromkeys(around))
    return {"no_proxy": value, "NO_PROXY": value}
