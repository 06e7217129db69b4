"""flota.spawn: a function as the program of the workers."""

from __future__ import annotations

import os
import sys

from flota.cli.settings import without_parents_variables
from flota.errors import FlotaError
from flota.errors.spawning import BadOption, MissingGuard
from flota.frameworks import equip, shown_variables
from flota.host.ports import release
from flota.host.process_start import ProcessSpec
from flota.job.plan import WorkerPlan, plan_workers
from flota.logs import start_banner
from flota.logs.directory import open_directory, write_round_headers
from flota.run.start import hold_ports, one_node_roster
from flota.spawning import worker_process
from flota.spawning.notebook_output import choose_outputs
from flota.spawning.options import SpawnOptions, understand
from flota.spawning.pickled_call import Parcel, close_all, files_with, interpreter_command, pack
from flota.spawning.supervisor_client import SupervisorClient
from flota.spawning.supervisor_process import Orders
from flota.spawning.workers import Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping
    from typing import Any

LOG_VARIABLES = ("FLOTA_LOG_DIR", "PADDLE_LOG_DIR", "TORCHELASTIC_ERROR_FILE")  # nothing is there without log_dir


def spawn(
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = -1,
    join: bool = True,  # noqa: FBT001, FBT002  the signature of paddle.distributed.spawn and torch.multiprocessing.spawn
    daemon: bool = False,  # noqa: FBT001, FBT002
    **options: Any,
) -> Workers:
    """Run `func(*args)` in `nprocs` processes, each with the variables that the command `flota` gives its workers.

    nprocs       how many [-1: one a visible device; without devices one a CPU that this process may use]
    join         wait until all have ended, and raise WorkerFailed if one failed
    daemon       end the workers when this program ends; otherwise its end waits for them

    Options:
    with_rank    call `func(rank, *args)`
    start_method 'spawn' a new interpreter each, 'fork' copies of this process, 'forkserver' copies of one new
                 interpreter that has imported the script ['spawn']
    devices      which devices, one a worker: '4,5', [4, 5], or 'cpu' for none [all visible ones]; also: gpus, xpus
    framework    give only these frameworks' variables: 'paddle', 'torch,jax' [all]
    backend      PADDLE_DISTRI_BACKEND ['gloo' without devices]
    log_dir      write each worker's output to log_dir/workerlog.N [the console]
    timeout      end all workers after so many seconds, or '2m' [never]
    grace        how long workers that are to end have from SIGTERM to SIGKILL [30]
    ips          this machine's address ['127.0.0.1']
    print_config print the first worker's variables
    """
    check_call(func, args)
    environ = without_parents_variables(os.environ)
    name = getattr(func, "__qualname__", repr(func))
    wish = understand(name, nprocs, options, environ)
    fork = wish.start_method == "fork"
    parcel = Parcel(b"", ()) if fork else pack(func, tuple(args), with_rank=wish.with_rank)
    call = worker_process.bind(func, tuple(args), with_rank=wish.with_rank) if fork else None
    workers = start(wish, environ, parcel, call, daemon=daemon)
    if join:
        workers.join()
    return workers


def check_guard() -> None:
    """In a worker that is still importing the script, starting workers would never come to an end."""
    from multiprocessing import process

    if getattr(process.current_process(), "_inheriting", False):
        raise MissingGuard


def check_call(func: object, args: object) -> None:
    check_guard()
    if not callable(func):
        raise BadOption("func", func, "a function", "flota.spawn(train)")
    if not isinstance(args, (tuple, list)):
        raise BadOption("args", args, "a tuple", f"args=({args!r},)")


def start(
    wish: SpawnOptions, environ: Mapping[str, str], parcel: Parcel, call: Callable[[int], Any] | None, *, daemon: bool
) -> Workers:
    sent, *results = files_with([parcel.content, *[b""] * wish.spec.workers])
    held: list[socket] = []
    locks: list[int] = []
    try:
        held, plans, locks = prepare(wish, environ)
        targets, forwarders = ([], []) if wish.logged else choose_outputs()
    except FlotaError:
        release(held)
        close_all([sent, *results, *locks])
        raise
    spawns = [
        spawn_of(plan, environ, targets, sent, result, parcel.fds) for plan, result in zip(plans, results, strict=True)
    ]
    if wish.print_config:
        show_config(wish, plans)
    server = wish.start_method == "forkserver"
    orders = Orders(
        tuple(spawns),
        wish.spec.grace,
        wish.timeout,
        inherited=(sent, *results, *parcel.fds, *(target for target in targets if target > 2)),
        call=call,
        template=sent if server else -1,
        results=tuple(results),
    )
    link = SupervisorClient(len(plans), held, locks, forwarders, daemon=daemon)
    logs = tuple(plan.worker.stderr for plan in plans) if wish.logged else ()
    workers = Workers(link, tuple(results), logs, wish.timeout)
    try:
        link.start(orders, common(spawns) if server else dict(environ), fork=call is not None)
        link.started.wait()
    except BaseException:  # Ctrl-C: nobody will ever have these workers
        link.give_up()
        raise
    finally:
        os.close(sent)
    return workers


def prepare(wish: SpawnOptions, environ: Mapping[str, str]) -> tuple[list[socket], tuple[WorkerPlan, ...], list[int]]:
    """Ports held, variables made out, logs opened and locked."""
    spec = wish.spec
    locks = [open_directory(spec.log.directory, spec.job_id, option="log_dir")] if wish.logged else []
    held: list[socket] = []
    try:
        held, ports = hold_ports(spec)
        roster = one_node_roster(spec, ports, 0, 0)
        workers = plan_workers(spec, roster, 0)
        if wish.logged:
            write_round_headers(spec, roster, workers, first=True)
        return held, tuple(equip(spec, roster, worker, environ) for worker in workers), locks
    except FlotaError:
        release(held)
        close_all(locks)
        raise


def spawn_of(
    plan: WorkerPlan, environ: Mapping[str, str], targets: list[int], sent: int, result: int, fds: tuple[int, ...]
) -> ProcessSpec:
    env = {name: value for name, value in environ.items() if name not in plan.dropped}
    env.update(plan.env)
    if targets:
        env = {name: value for name, value in env.items() if name not in LOG_VARIABLES}
    rank = plan.worker.rank
    body = f"from flota.spawning.worker_process import main; main({sent}, {result}, {rank})"
    stdout, stderr = targets or (plan.worker.stdout, plan.worker.stderr)
    return ProcessSpec(interpreter_command(body, bare=False), env, stdout, stderr, (sent, result, *fds))


def common(spawns: list[ProcessSpec]) -> dict[str, str]:
    """What all workers' environments agree on: for the interpreter whose forks they will be."""
    agreed = set(spawns[0].env.items()).intersection(*(one.env.items() for one in spawns))
    return dict(agreed)


def show_config(wish: SpawnOptions, plans: tuple[WorkerPlan, ...]) -> None:
    env = plans[0].env
    names = shown_variables(wish.spec, env)
    sys.stdout.write(
        f"{start_banner.start_line(len(plans))}\n{start_banner.table((name, env[name]) for name in names)}\n"
    )
