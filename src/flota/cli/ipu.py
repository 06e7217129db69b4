"""`flota ipu …`: Paddle's jobs on IPUs. flota runs poprun, a front end of MPI, as the job's only worker; poprun starts
the instances of the script.
"""

from collections.abc import Mapping
from typing import Any

from flota.cli.build_spec import absolute, find_program, make_spec, resolve_command
from flota.cli.convert import MOST_WORKERS, is_number
from flota.cli.flags import BY_NAME, FLAGS, Flag
from flota.cli.parse import CommandLine, Given, parse
from flota.cli.settings import Request, Settings, format_value
from flota.errors import BadValue, MissingIpuArguments, MissingProgram, NoScript, RefusedFlag, UnevenIpus
from flota.job.roster import endpoint
from flota.job.spec import DeviceSet, JobSpec
from flota.values import NamedTuple

PADDLE = "paddle launch"
IPU_FLAGS = (
    Flag("hosts", "hosts", None, "ipu", "hosts of the job, separated by commas", "HOSTS", origin=PADDLE),
    Flag("nproc-per-host", "positive", None, "ipu", "instances of the script on each host", "N", origin=PADDLE),
    Flag("ipus-per-replica", "positive", None, "ipu", "IPUs of each replica of the model", "N", origin=PADDLE),
    Flag("ipu-partition", "name", None, "ipu", "the V-IPU partition that the IPUs are in", "NAME", origin=PADDLE),
    Flag("vipu-server", "host", None, "ipu", "the V-IPU server, which manages the IPUs", "HOST", origin=PADDLE),
)
ROWS = {flag.name: flag for flag in IPU_FLAGS}
EXAMPLE = (
    "flota --devices 4 ipu --hosts=localhost --nproc_per_host=2 --ipus_per_replica=1 --ipu_partition=pod16"
    " --vipu_server=127.0.0.1 train.py"
)
NO_POPRUN = "it is part of the Poplar SDK: `source` the SDK's enable script, then check with `command -v poprun`"
PORT = "8090"  # Paddle's launcher uses it in every endpoint

SCRIPT = "`ipu` runs a script file"
MACHINES = "with `ipu`, --hosts names the machines"
NO_ROLES = "a job on IPUs has no roles"
REFUSED = {
    "module": SCRIPT,
    "no_python": SCRIPT,
    "nproc_per_node": "with `ipu`, --nproc_per_host sets the number of instances",
    **dict.fromkeys(("nnodes", "ips", "master", "rdzv_endpoint"), MACHINES),
    "start_port": f"all instances on IPUs use port {PORT}",
    "virtual_local_rank": "poprun assigns the IPUs",
    "bind": "poprun binds its instances to CPUs",
    "legacy_local_rank": "all instances on IPUs share one command line",
    **dict.fromkeys(("role", "run_mode", *(flag.dest for flag in FLAGS if flag.group == "roles")), NO_ROLES),
}


class IpuJob(NamedTuple):
    """`ipus` in total are divided among replicas of the model, and the replicas among instances."""

    ipus: int
    hosts: tuple[str, ...]
    nproc_per_host: int
    ipus_per_replica: int
    partition: str
    vipu_server: str

    @property
    def instances(self) -> int:
        return len(self.hosts) * self.nproc_per_host

    @property
    def replicas(self) -> int:
        return self.ipus // self.ipus_per_replica


def make_ipu_spec(request: Request) -> JobSpec:
    line, settings, environ = request.line, request.settings, request.environ
    for dest, why in REFUSED.items():
        if settings[dest] != BY_NAME[dest.replace("_", "-")].default:
            raise RefusedFlag(settings.source(dest), why)
    own = parse(list(line.args), ROWS)
    job = make_ipu_job(own, settings)
    arguments = poprun_arguments(job, instance_command(request._replace(line=own)), exported(settings, environ))
    given = {dest: value for dest, value in settings.given.items() if dest != "run_path"}
    given["devices"] = Given("cpu", "ipu")  # one worker, whatever else this machine has
    given.setdefault("framework", Given(("paddle",), "ipu"))
    program = find_program("poprun", environ, MissingProgram("poprun", NO_POPRUN))
    poprun = line._replace(script=program, args=arguments)
    ids = tuple(str(number) for number in range(job.ipus))
    spec = make_spec(request._replace(line=poprun, settings=Settings(given)))
    first = tuple((name, value) for name, _, value in (word.partition("=") for word in (*world(job), *place(job, 0))))
    devices = DeviceSet("ipu", "", ids, ids, by_id=True)
    return spec._replace(devices=devices, instance_env=first, misplaced=())  # the arguments are poprun's


def ipu_configuration(line: CommandLine) -> tuple[CommandLine, dict[str, str]]:
    """The part of the command line after `ipu`, and its flags for the block of settings."""
    own = parse(list(line.args), ROWS)
    rows = {dest: format_value(dest, given.value) for dest, given in own.given.items()}
    return own, {**rows, "ips": rows["hosts"]}


def make_ipu_job(own: CommandLine, settings: Settings) -> IpuJob:
    missing = [f"--{flag.dest}" for flag in IPU_FLAGS if flag.dest not in own.given]
    if settings["devices"] is None:
        missing.insert(0, "--devices")
    if missing:
        raise MissingIpuArguments(missing, EXAMPLE)
    ipus = settings["devices"]
    if not is_number(ipus) or not 1 <= int(ipus) <= MOST_WORKERS:
        fits = f"a number of IPUs, 1 to {MOST_WORKERS}, before `ipu`"
        raise BadValue(settings.source("devices"), ipus, fits, "--devices 4")
    values: list[Any] = [own.given[flag.dest].value for flag in IPU_FLAGS]
    job = IpuJob(int(ipus), *values)
    if job.ipus % job.ipus_per_replica:
        why = f"not a multiple of --ipus_per_replica {job.ipus_per_replica}"
        raise UnevenIpus(job.ipus, job.ipus_per_replica, why)
    if job.replicas % job.instances:
        why = f"{job.replicas} replicas cannot be divided among {job.instances} instances (hosts x --nproc_per_host)"
        raise UnevenIpus(job.ipus, job.ipus_per_replica * job.instances, why)
    return job


def instance_command(request: Request) -> tuple[str, ...]:
    if not request.line.script:
        raise NoScript(EXAMPLE)
    command = resolve_command(request)
    for word in command.args:
        if "${rank}" in word or "${local_rank}" in word:
            hint = "remove it; the script can read its rank from PADDLE_TRAINER_ID"
            raise RefusedFlag(word, REFUSED["legacy_local_rank"], hint)
    # Unlike Paddle's launcher, pass -u: PYTHONUNBUFFERED does not reach instances on other hosts, and buffered output
    # would appear late, or be lost if they are killed.
    python = (absolute(command.python), "-u") if command.kind == "script" else ()
    return (*python, absolute(command.target), *command.args)


def exported(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """More variables for all instances: NAME=VALUE, or NAME for a variable of poprun's own environment, whose value may
    contain spaces.
    """
    env = dict(settings["env"])
    level = env.pop("POPART_LOG_LEVEL", environ.get("POPART_LOG_LEVEL"))
    if settings["threads"] != "auto":
        env["OMP_NUM_THREADS"] = ""
    return (*([f"POPART_LOG_LEVEL={level}"] if level else []), *env)


def poprun_arguments(job: IpuJob, command: tuple[str, ...], variables: tuple[str, ...]) -> tuple[str, ...]:
    """The same arguments as Paddle's launcher gives, but without a shell in between."""
    instances = [
        f"--instance-mpi-local-args={number}:{_exports(place(job, number))}" for number in range(job.instances)
    ]
    return (
        f"--num-instances={job.instances}",
        f"--num-replicas={job.replicas}",
        f"--ipus-per-replica={job.ipus_per_replica}",
        f"--host={','.join(job.hosts)}",
        f"--vipu-partition={job.partition}",
        f"--vipu-server-host={job.vipu_server}",
        *("--update-partition=no", "--vipu-server-timeout=120", "--print-topology=yes", "--numa-aware=yes"),
        f"--mpi-local-args={_exports((*variables, *world(job)))}",
        *instances,
        *command,
    )


def world(job: IpuJob) -> tuple[str, ...]:
    """The variables that are the same for all instances."""
    endpoints = ",".join(endpoint(host, PORT) for host in job.hosts)
    return f"PADDLE_TRAINERS_NUM={job.instances}", f"PADDLE_TRAINER_ENDPOINTS={endpoints}"


def place(job: IpuJob, number: int) -> tuple[str, ...]:
    """The variables of one instance."""
    host, rank_in_node = divmod(number, job.nproc_per_host)
    own = f"PADDLE_CURRENT_ENDPOINT={endpoint(job.hosts[host], PORT)}"
    return f"PADDLE_TRAINER_ID={number}", own, f"PADDLE_RANK_IN_NODE={rank_in_node}"


def _exports(variables: tuple[str, ...]) -> str:
    """`-x` makes MPI pass a variable to the instances."""
    return " ".join(f"-x {variable}" for variable in variables)
