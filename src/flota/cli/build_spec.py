"""Turns settings into a JobSpec: rejects contradictions and fills in every default that depends on this machine."""

from __future__ import annotations

import os
import sys

from flota import errors
from flota.cli.convert import LAST_PORT, known_signals
from flota.cli.flags import ROLE_FLAGS, find_flag
from flota.cli.parse import nearest
from flota.cli.settings import Request, Settings
from flota.devices import TORCH_NAMES, choose_devices, find_devices
from flota.job.roles import COLLECTIVE, Role
from flota.job.spec import Command, DeviceSet, JobSpec, LogSpec, RestartPolicy
from flota.values import NamedTuple

# Flags whose values are copied to the JobSpec field of the same name.
SAME_NAME = (
    *("job_id", "port_range", "grace", "join_timeout", "hang_timeout", "native_stacks", "preempt_timeout", "env"),
    *("timeout", "on_event", "chaos", "view", "dashboard", "backend", "role", "interactive", "warm", "warm_memory"),
    *("restart_grace", "virtual_local_rank", "snapshot_memory", "snapshot_copies", "snapshot_every"),
)

MOST_READ = 256 << 10  # bytes of a script


class RoleSet(NamedTuple):
    """A job's mode and roles. `hosts`: all nodes, if the user listed them with `flag`."""

    mode: str
    roles: tuple[Role, ...] = ()  # empty: trainers only
    hosts: tuple[str, ...] = ()
    flag: str = ""
    gloo_port: int | None = None

    @property
    def own_command(self) -> Command | None:
        """The first role's command, if every role has its own. The command line then needs no script."""
        commands = [role.command for role in self.roles]
        return commands[0] if commands and all(commands) else None


NO_ROLES = RoleSet(COLLECTIVE)


def make_spec(request: Request) -> JobSpec:
    settings = request.settings
    if request.line.script == "ipu":
        from flota.cli.ipu import make_ipu_spec

        return make_ipu_spec(request)
    reject_contradictions(settings)
    get, hints = settings.__getitem__, settings.hints
    found = find_devices(request.environ)
    devices = choose_devices(found, get("devices"))
    role_set = choose_role_set(request, found, devices)
    workers = sum(role.workers for role in role_set.roles)
    if not workers:
        workers = 1 if get("interactive") else count_workers(get("nproc_per_node"), devices)
    spec = JobSpec(
        command=role_set.own_command or resolve_command(request),
        workers=workers,
        run_id="" if settings.source("job_id") else new_run_id(),
        log=make_log_spec(settings, request.parent),
        devices=devices,
        address=get("host") or get("ips"),
        start_port=None if role_set.hosts else choose_start_port(settings, workers),  # listed addresses include ports
        restarts=restart_policy(settings),
        preempt_signal=get("preempt_signal") or "",
        stop_signals=known_signals(get("signals_to_handle")),
        frameworks=get("framework"),
        misplaced=find_misplaced(request.line.args),
        threads=count_threads(get("threads"), workers, devices, hints.cpus if hints else 0),
        threads_given=get("threads") != "auto",
        legacy_local_rank=get("legacy_local_rank") and not get("use_env"),
        mode=role_set.mode,
        roles=role_set.roles,
        gloo=get("with_gloo"),
        gloo_port=role_set.gloo_port,
        share=hints.share if hints else None,
        snapshot_dir=absolute(get("snapshot_dir")) if get("snapshot_dir") else "",
        **{name: get(name) for name in SAME_NAME},
    )
    if get("stop_before") is not None:
        spec = with_end_time(spec, settings)
    spec = with_nodes(spec, request, role_set)
    if spec.chaos:
        require_recovery(spec)
    return with_bindings(spec, get("bind"), hints.cpus if hints else 0) if get("bind") != "none" else spec


def with_end_time(spec: JobSpec, settings: Settings) -> JobSpec:
    from flota.engines.slurm_step import find_end_time

    ends_at = find_end_time(settings.source("stop_before"), os.environ)
    return spec._replace(stop_at=ends_at - settings["stop_before"])


def require_recovery(spec: JobSpec) -> None:
    """A job into which faults are injected must be able to recover from them."""
    from flota.chaos.faults import find_missing_flag

    if missing := find_missing_flag(spec):
        raise errors.OnlyWith(*missing)


def with_bindings(spec: JobSpec, mode: str, cpus: int = 0) -> JobSpec:
    """Bind the workers to CPUs. Most jobs do not, so that code is imported only if needed."""
    from flota.cli.bindings import bind_to_cpus

    return bind_to_cpus(spec, mode, cpus)


def new_run_id() -> str:
    """A name for one run. torchrun also makes one: scripts use it in the names of scratch files."""
    return os.urandom(8).hex()


def choose_role_set(request: Request, found: DeviceSet, devices: DeviceSet) -> RoleSet:
    """Most jobs have only trainers, so the code for roles is imported only if needed."""
    settings = request.settings
    if settings["run_mode"] == COLLECTIVE and not settings.tables and not any(map(settings.source, ROLE_FLAGS)):
        return NO_ROLES
    from flota.cli.role_set import make_roles

    role_set = make_roles(request, found, devices)
    if role_set.roles and not any(role.workers for role in role_set.roles):
        raise errors.NoWorkersHere
    return role_set


def with_nodes(spec: JobSpec, request: Request, role_set: RoleSet) -> JobSpec:
    """Add the nodes of a multi-node job. Most jobs use one machine, so that code is imported only if needed."""
    settings, hosts = request.settings, role_set.hosts
    get = settings.__getitem__
    several = get("nnodes") != (1, 1) or "," in get("ips") or len(hosts) > 1
    if several or any(map(get, ("master", "rdzv_endpoint", "spares", "evict_stragglers"))):
        from flota.cli.nodes_spec import choose_address, choose_interface, make_nodes

        nodes = make_nodes(settings, request.environ, role_set)
        if nodes:
            address = choose_address(settings, nodes)
            nodes = nodes._replace(words=request.line.common)
            return spec._replace(nodes=nodes, address=address, interface=choose_interface(settings, address))
    if settings.source("snapshot_copies"):
        raise errors.OnlyWith(settings.source("snapshot_copies"), "--nnodes")
    if not -1 <= get("rank") < 1:
        raise errors.NodeRankOutOfRange(get("rank"), 1)
    return spec._replace(address=hosts[0]) if hosts else spec


def reject_contradictions(settings: Settings) -> None:
    def both(one: str, other: str, why: str) -> None:
        if settings[one] and settings[other] and settings.source(one) and settings.source(other):
            raise errors.Contradiction(settings.source(one), settings.source(other), why)

    both("module", "no_python", "a module is run by python")
    both("module", "run_path", "a module is not a path")
    both("no_python", "run_path", "a path is run by python")
    both("start_port", "port_range", "both set the workers' ports")
    both("warm", "interactive", "an interactive worker always starts cold")
    both("view", "interactive", "both use the terminal")
    both("log_max_size", "interactive", "an interactive worker has no log")
    both("hang_timeout", "interactive", "an interactive worker waits for input")
    if settings["native_stacks"] and settings["hang_timeout"] is None:
        raise errors.OnlyWith("--native-stacks", "--hang-timeout")
    if settings["warm_memory"] is not None and not settings["warm"]:
        raise errors.OnlyWith(settings.source("warm_memory"), "--warm")
    if settings.source("snapshot_every") and not settings["snapshot_dir"]:
        raise errors.OnlyWith(settings.source("snapshot_every"), "--snapshot_dir")
    if settings["legacy_local_rank"] and settings["no_python"] and not settings["use_env"]:
        raise errors.NeedsUseEnv(settings.source("no_python"))
    if not settings["ips"]:
        raise errors.BadValue(settings.source("ips"), "", "addresses", "--ips 127.0.0.1")
    if settings["json"] and not settings["dry_run"]:
        raise errors.OnlyWith("--json", "--dry-run")
    if not settings["log_dir"]:
        raise errors.BadValue(settings.source("log_dir"), "", "a directory", "--log_dir log")
    workers, spelled = settings["nproc_per_node"], settings.spelled("nproc_per_node")
    if settings["interactive"] and workers not in (None, 1):
        raise errors.Contradiction("--interactive", spelled, "only one worker can use the terminal")
    if settings["devices"] == "cpu" and workers == "gpu":
        raise errors.Contradiction(settings.spelled("devices"), spelled, "there are no devices to count")


def count_workers(wanted: int | str | None, devices: DeviceSet) -> int:
    if wanted is None:
        return len(devices.chosen) or 1
    if isinstance(wanted, int):
        if devices.by_id and devices.chosen and wanted > len(devices.chosen):
            raise errors.TooManyWorkers(wanted, len(devices.chosen))
        return wanted
    if wanted == "cpu" or (wanted == "auto" and not devices.chosen):
        return count_cpus()
    if wanted not in ("auto", devices.kind, TORCH_NAMES.get(devices.kind)) or not devices.chosen:
        raise errors.NoDevices(f"--nproc_per_node {wanted}")
    return len(devices.chosen)


def find_misplaced(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags of flota among the script's arguments."""
    flags = (word.partition("=")[0] for word in args if word.startswith("--"))
    return tuple(flag for flag in flags if find_flag(flag[2:]))


def choose_start_port(settings: Settings, workers: int) -> int | None:
    first, source = settings["start_port"], settings.source("start_port")
    if not source and not settings["port_range"] and settings.hints and len(settings.hints.ports) >= workers:
        return settings.hints.ports.start
    if source and first + workers - 1 > LAST_PORT:
        raise errors.BadValue(source, str(first), f"a port that leaves room for {workers} workers", "--start_port 6070")
    return first if source else None


def count_cpus() -> int:
    """Count the CPUs that this process may use, or all CPUs if the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_threads(wanted: int | str, workers: int, devices: DeviceSet, cpus: int = 0) -> int | None:
    """Without --threads: no setting for one worker; one thread each with devices, else an equal share of the CPUs.

    `cpus`: the CPUs that the platform has assigned to this node, if it says so; a single worker gets all of them.
    """
    if isinstance(wanted, int):
        return wanted
    if workers == 1:
        return cpus or None
    return 1 if devices.chosen else max(1, (cpus or count_cpus()) // workers)


def make_log_spec(settings: Settings, parent: tuple[str, str] = ("", "")) -> LogSpec:
    """`parent`: see Request. Its job has locked its log directory, so this job uses another beside it by default."""
    get = settings.__getitem__
    console, only = get("console"), get("local_ranks_filter")
    if only is not None and not settings.source("console"):
        console = only
    directory, per_run = read_log_dir(get("log_dir"), settings.source("log_dir"))
    if directory == parent[0] and not per_run and not settings.source("log_dir").startswith("-"):
        directory = f"{directory}.{parent[1]}"
    return LogSpec(
        directory,
        per_run=per_run,
        only=only,
        console=(0,) if console == "0" else console,
        stdout_filters=get("duplicate_stdout_filters"),
        stderr_filters=get("duplicate_stderr_filters"),
        events_on_console=get("event_log_handler") == "console",
        prefix=get("log_line_prefix_template"),
        **{name: get(f"log_{name}") for name in ("level", "overwrite", "max_size", "backups", "timestamps")},
        **{name: get(name) for name in ("redirects", "tee", "verbose", "quiet", "shared_console", "progress")},
    )


def read_log_dir(path: str, source: str = "--log_dir") -> tuple[str, str]:
    """The directory and what is below it for each run: nothing, unless the path has placeholders."""
    if "{" not in path and "}" not in path:
        return absolute(path), ""
    from flota.job.log_template import find_mistake, split

    mistake = find_mistake(path)
    if mistake:
        raise errors.UnknownPlaceholder(source, path, mistake)
    base, template = split(path)
    return absolute(base), os.path.normpath(template)


def locate_log_dir(path: str, source: str) -> tuple[str, str]:
    """The same, for commands that look for a job: braces in the name of a directory that exists mean themselves."""
    if not path:
        raise errors.BadValue(source, "", "a directory", "--log_dir log")
    return (absolute(path), "") if os.path.exists(path) else read_log_dir(path, source)


def absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise errors.NoWorkingDirectory from None


def restart_policy(settings: Settings) -> RestartPolicy:
    """Restarts are enabled by --max_restart, --restart-on, an elastic level or a range of nodes. Without any of them a
    failure ends the job, although --max_restart has a default.
    """
    get = settings.__getitem__
    least, most = get("nnodes")
    elastic = least != most
    level = int(get("elastic_level"))
    return RestartPolicy(
        get("max_restart"),
        enabled=bool(settings.source("max_restart")) or bool(get("restart_on")) or level >= 0 or elastic,
        elastic_level=1 if elastic and level == -1 else level,
        earlier=settings.hints.restarts if settings.hints else 0,
        **{name: get(name) for name in ("restart_on", "no_restart_on", "backoff", "crash_loop")},
    )


def resolve_command(request: Request) -> Command:
    line, settings = request.line, request.settings
    if not line.script:
        raise errors.NoScript
    python = choose_python(request)
    if settings["module"]:
        path = line.script.replace(".", "/")  # in the working directory: finding it elsewhere may import packages
        return Command("module", line.script, line.args, python, asks_jax(f"{path}.py", f"{path}/__main__.py", request))
    if settings["no_python"]:
        program = find_program(line.script, request.environ, errors.MissingProgram(line.script))
        return Command("program", program, line.args, python)
    if line.script == "run_check" and not os.path.exists(line.script):
        raise errors.RefusedFlag("run_check", "flota has no self-test for Paddle", "run a small script of your own")
    if os.path.isdir(line.script) and not settings["run_path"]:
        raise errors.ScriptIsDirectory(line.script, f"{line.script.rstrip('/')}/train.py")
    if not os.path.exists(line.script):
        raise errors.MissingScript(line.script, _nearest_file(line.script))
    as_python = line.script.endswith(".py") or settings["run_path"] or not os.access(line.script, os.X_OK)
    if as_python:
        return Command("script", line.script, line.args, python, asks_jax(line.script, "", request))
    return Command("program", line.script if os.path.dirname(line.script) else f"./{line.script}", line.args, python)


def asks_jax(path: str, otherwise: str, request: Request) -> bool:
    """Whether the script leaves it to JAX to find the other processes, and JAX would find none. See decision 44."""
    path = path if os.path.isfile(path) else otherwise  # a pipe could be read only once
    try:
        with open(path, "rb", 0) as file:
            text = file.read(MOST_READ)
    except OSError:
        return False  # the worker reports that
    if b"jax" not in text or b"initialize" not in text or "OMPI_COMM_WORLD_SIZE" in request.environ:
        return False
    from flota.cli.jax_script import leaves_ranks_to_jax

    return leaves_ranks_to_jax(text)


def choose_python(request: Request) -> str:
    """In order: --python or PYTHON_EXEC, the one running `python -m flota`, the active environment's, flota's own."""
    wanted = request.settings["python"]
    if wanted:
        return find_program(wanted, request.environ, errors.BadInterpreter(wanted))
    if request.interpreter:
        return request.interpreter
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = os.path.join(request.environ.get(variable) or "/nowhere", "bin", "python")
        if os.access(candidate, os.X_OK):
            return candidate
    return sys.executable


def find_program(program: str, environ: dict[str, str], missing: errors.FlotaError) -> str:
    """Find an executable on PATH, or at its own path if it contains a slash. Raises `missing` if there is none."""
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    found = [program] if os.path.dirname(program) else [os.path.join(place or ".", program) for place in places]
    for path in found:
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise missing


def _nearest_file(path: str) -> str:
    directory = os.path.dirname(path)
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return ""
    name = os.path.basename(path)  # listed if it is a link to a missing file
    near = nearest(name, [other for other in names if other != name])
    return os.path.join(directory, near) if near else ""
