"""flota.spawn: runs a function of the caller in worker processes."""

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from flota.cli.settings import without_parents_variables
from flota.errors.spawning import BadOption, MissingGuard
from flota.frameworks import add_variables, shown_variables
from flota.host.ports import release
from flota.host.process_start import ProcessSpec
from flota.job.plan import WorkerPlan, plan_workers
from flota.logs.directory import write_round_headers
from flota.logs.run_directory import link_latest, open_run
from flota.logs.start_blocks import NO_LIMIT, START_LINE, variable_table
from flota.run.start import one_node_roster, with_binding
from flota.run.worker_ports import hold_ports
from flota.spawning import worker_process
from flota.spawning.options import SpawnOptions, read_options
from flota.spawning.pickled_call import anonymous_file, interpreter_command, pickle_call
from flota.spawning.supervisor_client import SupervisorClient
from flota.spawning.supervisor_process import SpawnRequest
from flota.spawning.workers import Workers
from flota.standby.strategy import common_variables

LOG_VARIABLES = ("FLOTA_LOG_DIR", "PADDLE_LOG_DIR", "TORCHELASTIC_ERROR_FILE")  # removed without log_dir


def spawn(
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = -1,
    join: bool = True,  # noqa: FBT001, FBT002  the signature of paddle.distributed.spawn and torch.multiprocessing.spawn
    daemon: bool = False,  # noqa: FBT001, FBT002
    **options: Any,
) -> Workers:
    """Run `func(*args)` in `nprocs` processes, each with the variables that the command `flota` gives its workers.

    nprocs       number of workers [-1: one per visible device; without devices one per CPU of this process]
    join         wait until all workers have finished, and raise WorkerFailed if one failed
    daemon       kill the workers when this program exits; otherwise the program waits for them at exit

    Options:
    with_rank    call `func(rank, *args)`
    start_method 'spawn': a new interpreter per worker; 'fork': forks of this process; 'forkserver': forks of one new
                 interpreter that has imported the script ['spawn']
    devices      devices, one per worker: '4,5', [4, 5], or 'cpu' for none [all visible ones]; also: gpus, xpus
    bind         bind workers to CPUs near their devices: 'auto', 'numa', 'socket', 'cache' or 'core' ['none']
    framework    set only the variables of these frameworks: 'paddle', 'torch,jax' [all]
    backend      PADDLE_DISTRI_BACKEND ['gloo' without devices]
    log_dir      write each worker's output to log_dir/workerlog.N [the console]
    timeout      stop all workers after this time: seconds, or '2m' [never]
    grace        time from SIGTERM to SIGKILL when workers are stopped: seconds, or '2m' [30]
    ips          this machine's address ['127.0.0.1']
    print_config print the variables of the first worker
    """
    check_guard()
    if not callable(func):
        raise BadOption("func", func, "a function", "flota.spawn(train)")
    if not isinstance(args, (tuple, list)):
        raise BadOption("args", args, "a tuple", f"args=({args!r},)")
    environ = without_parents_variables(os.environ)
    name = getattr(func, "__qualname__", repr(func))
    parsed = read_options(name, nprocs, options, environ)
    workers = start(parsed, environ, func, tuple(args), daemon=daemon)
    if join:
        workers.join()
    return workers


def check_guard() -> None:
    """Raise MissingGuard in a worker that is still importing the script: it would start workers without end."""
    from multiprocessing import process

    if getattr(process.current_process(), "_inheriting", False):
        raise MissingGuard


def start(
    options: SpawnOptions, environ: Mapping[str, str], func: Callable[..., Any], args: tuple[Any, ...], *, daemon: bool
) -> Workers:
    content, call, fds = b"", None, list[int]()
    if options.start_method == "fork":
        call = worker_process.bind(func, args, with_rank=options.with_rank)
    else:
        content, fds = pickle_call(func, args, with_rank=options.with_rank)
    client = SupervisorClient(options.spec.workers, daemon=daemon)
    with client.starting():
        call_fd = anonymous_file(client.until_started, content)
        plans = plan_spawn(options, environ, client)
        logs = [plan.worker.stderr for plan in plans] if options.spec.log.directory else []
        workers = Workers(client, options.timeout, logs)
        targets = [] if options.spec.log.directory else client.open_outputs()
        processes = tuple(
            process_spec(plan, environ, targets, (call_fd, result_fd, *fds))
            for plan, result_fd in zip(plans, workers.result_fds, strict=True)
        )
        if options.print_config:
            env = plans[0].env
            table = variable_table([(name, env[name]) for name in shown_variables(options.spec, env)], NO_LIMIT)
            sys.stdout.write(f"{START_LINE.format(len(plans))}\n{table}\n")
        has_template = options.start_method == "forkserver"
        request = SpawnRequest(
            processes, options.spec.grace, options.timeout, workers.result_fds, call, call_fd if has_template else -1
        )
        common = common_variables([process.env for process in processes])
        client.start(request, common if has_template else dict(environ))
        client.wait_until(client.has_started)
        return workers


def plan_spawn(options: SpawnOptions, environ: Mapping[str, str], client: SupervisorClient) -> tuple[WorkerPlan, ...]:
    """Hold ports, open and lock the log directory, and compute variables. `client` keeps ports and lock until the
    workers have exited."""
    spec = options.spec
    if spec.log.directory:
        spec, lock = open_run(spec, option="log_dir")
        client.resources.callback(os.close, lock)
        trouble = link_latest(spec.log) if spec.log.latest else ""
        if trouble:
            warnings.warn(trouble, RuntimeWarning, stacklevel=4)
    held, ports = hold_ports(spec)
    client.resources.callback(release, held)
    roster = one_node_roster(spec, ports, 0, 0)
    workers = plan_workers(spec, roster, 0)
    if spec.log.directory:
        write_round_headers(spec, roster, workers, first=True)
    # Only the supervisor process knows the path of each worker's page: see supervisor_process.complete.
    return tuple(add_variables(spec, roster, worker, environ, channel="pending") for worker in workers)


def process_spec(plan: WorkerPlan, environ: Mapping[str, str], targets: list[int], fds: tuple[int, ...]) -> ProcessSpec:
    """`fds`: the pickled call, the result, and other descriptors that the worker inherits."""
    env = {name: value for name, value in environ.items() if name not in plan.dropped}
    env.update(plan.env)
    if targets:
        env = {name: value for name, value in env.items() if name not in LOG_VARIABLES}
    call_fd, result_fd, *_ = fds
    body = f"from flota.spawning.worker_process import main; main({call_fd}, {result_fd}, {plan.worker.rank})"
    stdout, stderr = targets or (plan.worker.stdout, plan.worker.stderr)
    return with_binding(ProcessSpec(interpreter_command(body, bare=False), env, stdout, stderr, fds), plan.worker)
