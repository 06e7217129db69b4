"""Starts workers from a spec. This is the start path: the code that watches workers (single_node.py) is imported while
their interpreters boot.
"""

from __future__ import annotations

import os
import time

from flota.errors import TooManyProcesses
from flota.frameworks import add_variables, backups
from flota.host.channel import Channel
from flota.host.process_start import ProcessSpec, require_files
from flota.host.round import Round
from flota.host.signals import Signals, restore_interrupt
from flota.job.plan import ERROR, Worker, WorkerPlan, own_file, plan_workers
from flota.job.roster import Ports, Roster, Seat, with_endpoints
from flota.job.spec import JobSpec
from flota.logs.directory import open_directory, remove, write_round_headers
from flota.run.worker_ports import MASTER_PORTS, hold_ports
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping

    from flota.job.report import Report
    from flota.logs.rotation import RotatingLog
    from flota.snapshots.agreement import AgreedStep
    from flota.snapshots.memory import SnapshotMemory
    from flota.standby.warm_start import WarmStart

    Rows = tuple[tuple[str, str], ...]
    MultiNodeRun = Callable[[JobSpec, Mapping[str, str], Signals, Rows, tuple[str, ...], WarmStart | None], Report]

PASSED_ON = ("SIGUSR1", "SIGUSR2")
EXIT_AFTER_ERROR = "FLOTA_EXIT_AFTER_ERROR"  # removed before the script starts: standby/site/sitecustomize.py
JOB_CONTROL = ("SIGTSTP", "SIGCONT", "SIGCHLD")


class Started(NamedTuple):
    """A started round and its plan."""

    round: Round
    roster: Roster
    plans: tuple[WorkerPlan, ...]
    marks: dict[str, tuple[int, int]]  # by log: start and end of this round's header line
    rotating: tuple[RotatingLog, ...]
    began: float
    seat: int  # this node's
    channel: Channel


def run(
    spec: JobSpec,
    environ: Mapping[str, str],
    configuration: Rows = (),
    notes: tuple[str, ...] = (),
    run_multi_node: MultiNodeRun | None = None,
) -> Report:
    """Run this node's part of a job until the job ends. `run_multi_node`: the implementation for several nodes."""
    if spec.snapshot_dir:
        from flota.snapshots.disk import prepare_directory

        prepare_directory(spec.snapshot_dir)
    if spec.log.per_run:
        from flota.logs.run_directory import open_run

        spec, lock = open_run(spec)
    else:
        lock = open_directory(spec.log.directory, spec.job_id, shared=spec.nodes is not None)
    warm = None
    if spec.warm:
        from flota.standby.warm_start import WarmStart

        warm = WarmStart(spec)
    try:
        preempt = [spec.preempt_signal] if spec.preempt_signal else []
        if "SIGINT" not in spec.stop_signals:
            restore_interrupt()
        signals = Signals([*spec.stop_signals, *PASSED_ON, *JOB_CONTROL, *preempt])
        if run_multi_node:
            return run_multi_node(spec, environ, signals, configuration, notes, warm)
        snapshots = None
        if spec.restarts.enabled or spec.snapshot_dir:
            from flota.snapshots.memory import SnapshotMemory

            snapshots = SnapshotMemory(spec.snapshot_memory, spec.snapshot_dir)
        started = start_round(spec, environ, 0, spec.restarts.earlier, warm, snapshots)
        from flota.run.single_node import SingleNode

        return SingleNode(spec, environ, signals, started, warm, snapshots).run(configuration, notes)
    finally:
        if warm:
            warm.close()
        if lock >= 0:
            os.close(lock)


def start_round(
    spec: JobSpec,
    environ: Mapping[str, str],
    round_number: int,
    attempt: int,
    warm: WarmStart | None = None,
    snapshots: SnapshotMemory | None = None,
) -> Started:
    """Start a round of a job on one machine."""
    held, ports = hold_ports(spec)
    roster = one_node_roster(spec, ports, round_number, attempt)
    return start_workers(spec, environ, roster, 0, held, first=round_number == 0, warm=warm, snapshots=snapshots)


def expected_processes(spec: JobSpec, environ: Mapping[str, str]) -> list[ProcessSpec]:
    """Processes of this node's workers before its ranks are known, to prepare a warm start."""
    roster = one_node_roster(spec, Ports(("",) * spec.workers, *[""] * MASTER_PORTS), 0, 0)
    plans = [add_variables(spec, roster, worker, environ, "") for worker in plan_workers(spec, roster, 0)]
    return [
        _process_spec(spec, plan._replace(env=_independent_of_roster(spec, plan.env)), environ, {}) for plan in plans
    ]


def _independent_of_roster(spec: JobSpec, env: dict[str, str]) -> dict[str, str]:
    """The variables of a worker that do not depend on other nodes."""
    given = {name for name, _ in spec.env}
    return {
        name: value
        for name, value in env.items()
        if name in given or name == "OMP_NUM_THREADS" or "_VISIBLE_" in name or name.startswith("FLAGS_selected_")
    }


def start_workers(
    spec: JobSpec,
    environ: Mapping[str, str],
    roster: Roster,
    seat: int,
    held: list[socket],
    *,
    first: bool,
    on_node_death: Callable[[], object] | None = None,
    warm: WarmStart | None = None,
    snapshots: SnapshotMemory | None = None,
    agreed: tuple[AgreedStep, ...] | None = None,
) -> Started:
    """Start this node's workers. `first`: this is the job's first round. See Round for `on_node_death`. `agreed`: see
    SnapshotMemory.begin_round."""
    began = time.monotonic()
    workers = plan_workers(spec, roster, seat)
    read = [worker for worker in workers if spec.log.max_size is not None or spec.log.shows(worker.rank)]
    require_files(len(workers), 2 * len(read))
    channel = Channel(len(workers), module_list=warm is not None)
    plans = tuple(
        add_variables(spec, roster, worker, environ, channel.page_path(number)) for number, worker in enumerate(workers)
    )
    if snapshots:
        snapshots.begin_round(plans, agreed)
    marks = {} if spec.interactive else write_round_headers(spec, roster, workers, first=first)
    for worker in workers:
        remove(own_file(spec, worker, ERROR))
    back_up_long_values(spec, roster, workers)
    rotating = open_rotating_logs(spec, workers)
    processes = [_process_spec(spec, plan, environ, {log.path: log.writer for log in rotating}) for plan in plans]
    start = warm.start(processes) if warm else None
    try:
        round_ = Round(
            with_sites(warm.cold(processes) if warm else processes),
            held,
            own_session=not spec.interactive,
            on_node_death=on_node_death,
            warm=start,
            when_started=lambda: close_writers(rotating),
        )
    except BlockingIOError:  # from fork()
        raise TooManyProcesses from None
    return Started(round_, roster, plans, marks, rotating, began, seat, channel)


def with_sites(processes: list[ProcessSpec]) -> list[ProcessSpec]:
    """Prepare workers of JAX to exit after an error."""
    if not any(EXIT_AFTER_ERROR in process.env for process in processes):
        return processes
    from flota.standby.site_folder import with_site

    return [with_site(process) if EXIT_AFTER_ERROR in process.env else process for process in processes]


def close_writers(logs: tuple[RotatingLog, ...]) -> None:
    """The workers hold the pipes now. Our copies would keep the pipes open after the workers exit."""
    for log in logs:
        os.close(log.writer)


def one_node_roster(spec: JobSpec, ports: Ports, round_number: int, attempt: int) -> Roster:
    seat = Seat("", os.uname().nodename, spec.address, ports, spec.workers_by_role)
    return with_endpoints(Roster(round_number, attempt, (seat,)), spec.all_roles)


def back_up_long_values(spec: JobSpec, roster: Roster, workers: tuple[Worker, ...]) -> None:
    for path, values in (backup for worker in workers for backup in backups(spec, roster, worker)):
        import json

        from flota.logs.directory import write_whole

        write_whole(path, json.dumps(values), mode=0o600)


def open_rotating_logs(spec: JobSpec, workers: tuple[Worker, ...]) -> tuple[RotatingLog, ...]:
    if spec.log.max_size is None:
        return ()
    from flota.logs.rotation import RotatingLog

    return tuple(RotatingLog(path, spec.log.max_size, spec.log.backups) for worker in workers for path in worker.logs)


def _process_spec(spec: JobSpec, plan: WorkerPlan, environ: Mapping[str, str], pipes: dict[str, int]) -> ProcessSpec:
    env = {**{name: value for name, value in environ.items() if name not in plan.dropped}, **plan.env}
    kind = (spec.all_roles[plan.worker.role].command or spec.command).kind
    if not spec.interactive and "OMPI_MCA_orte_hnp_uri" in plan.env and kind in ("script", "module"):  # a worker of JAX
        env[EXIT_AFTER_ERROR] = "1"
    stdout, stderr = plan.worker.stdout, plan.worker.stderr
    streams = (None, None) if spec.interactive else (pipes.get(stdout, stdout), pipes.get(stderr, stderr))
    return with_binding(ProcessSpec(plan.worker.argv, env, *streams), plan.worker)


def with_binding(process: ProcessSpec, worker: Worker) -> ProcessSpec:
    bound = worker.binding
    return process._replace(cpus=bound.cpus, memory_node=bound.memory_node) if bound else process
