"""From spec to started workers. All of this is on the start path; what it takes to watch them (alone.py) is imported
while their own interpreters boot.
"""

from __future__ import annotations

import os
import time

from flota.errors import MissingPackage
from flota.frameworks import equip, paddle, torch
from flota.host.ports import check_own_address, hold_exactly, hold_free, hold_from, number
from flota.host.round import Round
from flota.host.shepherd import Spawn
from flota.host.signals import Signals
from flota.job.plan import Worker, WorkerPlan, plan_workers
from flota.job.roster import Ports, Roster, Seat
from flota.job.spec import JobSpec
from flota.logs.files import open_directory, open_logs, remove
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping

    from flota.job.report import Report
    from flota.logs.rotation import RotatingLog

PASSED_ON = ("SIGUSR1", "SIGUSR2")
JOB_CONTROL = ("SIGTSTP", "SIGCONT", "SIGCHLD")
MASTERS = 3  # torch's, Paddle's and JAX's


class Started(NamedTuple):
    """A round under way, and what was planned for it."""

    round: Round
    roster: Roster
    plans: tuple[WorkerPlan, ...]
    marks: dict[str, tuple[int, int]]  # in each log, where flota's line for this round begins and ends
    rotating: tuple[RotatingLog, ...]
    began: float
    seat: int  # this node's


def run(
    spec: JobSpec,
    environ: Mapping[str, str],
    configuration: tuple[tuple[str, str], ...] = (),
    notes: tuple[str, ...] = (),
) -> Report:
    """Run this node's part of a job to the job's end."""
    lock = open_directory(spec.log.directory, spec.job_id, shared=spec.meeting is not None)
    try:
        signals = Signals([*spec.stop_signals, *PASSED_ON, *JOB_CONTROL])
        if spec.meeting:
            try:
                from flota.run.together import run_together
            except ModuleNotFoundError as error:
                raise MissingPackage(error.name or "h11") from None
            return run_together(spec, environ, signals, configuration, notes)
        started = start_round(spec, environ, 0, 0)
        from flota.run.alone import Alone

        return Alone(spec, environ, signals, started).run(configuration, notes)
    finally:
        os.close(lock)


def start_round(spec: JobSpec, environ: Mapping[str, str], round_number: int, attempt: int) -> Started:
    """A round of a job on this machine alone."""
    held, ports = hold_ports(spec)
    roster = one_node_roster(spec, ports, round_number, attempt)
    return start_workers(spec, environ, roster, 0, held, first=round_number == 0)


def start_workers(
    spec: JobSpec,
    environ: Mapping[str, str],
    roster: Roster,
    seat: int,
    held: list[socket],
    *,
    first: bool,
    farewell: Callable[[], object] | None = None,
) -> Started:
    """This node's workers of a round, the `first` or a later one; `farewell`: what its shepherd does if it dies."""
    began = time.monotonic()
    workers = plan_workers(spec, roster, seat)
    plans = tuple(equip(spec, roster, worker, environ) for worker in workers)
    marks = {} if spec.interactive else open_logs(spec, roster, workers, first=first)
    for worker in workers:
        remove(torch.error_file(spec, worker.rank))
    back_up_long_values(spec, roster, workers)
    rotating = open_rotating_logs(spec, workers)
    spawns = [_spawn(spec, plan, environ, {log.path: log.writer for log in rotating}) for plan in plans]
    round_ = Round(spawns, held, own_session=not spec.interactive, farewell=farewell)
    for log in rotating:
        log.close_writer()
    return Started(round_, roster, plans, marks, rotating, began, seat)


def one_node_roster(spec: JobSpec, ports: Ports, round_number: int, attempt: int) -> Roster:
    return Roster(round_number, attempt, (Seat(os.uname().nodename, spec.address, ports),))


def hold_ports(spec: JobSpec) -> tuple[list[socket], Ports]:
    """Fresh ports every round, so that no worker meets a dead round's store."""
    needed = spec.workers + MASTERS
    check_own_address(spec.address)
    if spec.start_port:
        held = hold_exactly(spec.start_port, spec.workers, spec.address) + hold_free(MASTERS, spec.address)
    elif spec.port_range:
        held = hold_from(*spec.port_range, needed, spec.address)
    else:
        held = hold_free(needed, spec.address)
    numbers = [number(holder) for holder in held]
    return held, Ports(tuple(numbers[: spec.workers]), *numbers[spec.workers :])


def back_up_long_values(spec: JobSpec, roster: Roster, workers: tuple[Worker, ...]) -> None:
    """Where a value is too long for the environment, Paddle reads it from a file."""
    values = paddle.backed_up(roster) if "paddle" in spec.frameworks else {}
    if values:
        import json

        from flota.logs.files import write_whole

        for worker in workers:
            write_whole(paddle.backup_file(spec, worker.rank), json.dumps(values), mode=0o600)


def open_rotating_logs(spec: JobSpec, workers: tuple[Worker, ...]) -> tuple[RotatingLog, ...]:
    if spec.log.max_size is None:
        return ()
    from flota.logs.rotation import RotatingLog

    paths = [path for worker in workers for path in worker.logs]
    return tuple(RotatingLog(path, spec.log.max_size, spec.log.backups) for path in paths)


def _spawn(spec: JobSpec, plan: WorkerPlan, environ: Mapping[str, str], pipes: dict[str, int]) -> Spawn:
    env = {name: value for name, value in environ.items() if name not in plan.dropped}
    env.update(plan.env)
    if spec.interactive:
        return Spawn(plan.worker.argv, env, None, None)
    stdout, stderr = plan.worker.stdout, plan.worker.stderr
    return Spawn(plan.worker.argv, env, pipes.get(stdout, stdout), pipes.get(stderr, stderr))
