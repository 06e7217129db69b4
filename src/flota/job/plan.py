"""(spec, roster, seat) to the workers that one node starts. Arithmetic only."""

from __future__ import annotations

from flota.job.roster import Roster
from flota.job.spec import ERR, OUT, Command, JobSpec
from flota.values import NamedTuple


class Worker(NamedTuple):
    """One worker's place: its numbers, its devices, its command and its logs."""

    rank: int
    local_rank: int
    seat: int
    devices: tuple[str, ...]
    argv: tuple[str, ...]
    stdout: str
    stderr: str

    @property
    def logs(self) -> tuple[str, ...]:
        return (self.stdout,) if self.stdout == self.stderr else (self.stdout, self.stderr)


class WorkerPlan(NamedTuple):
    """A worker and the variables it gets on top of the node's own environment."""

    worker: Worker
    env: dict[str, str]
    dropped: tuple[str, ...] = ()


def plan_workers(spec: JobSpec, roster: Roster, seat_number: int) -> tuple[Worker, ...]:
    first = roster.first_rank(seat_number)
    count = roster.seats[seat_number].workers
    return tuple(_worker(spec, first + local_rank, local_rank, count, seat_number) for local_rank in range(count))


def _worker(spec: JobSpec, rank: int, local_rank: int, count: int, seat_number: int) -> Worker:
    stdout, stderr = _log_paths(spec, rank)
    devices = devices_of(spec.devices.chosen, local_rank, count)
    return Worker(rank, local_rank, seat_number, devices, command_line(spec, rank, local_rank), stdout, stderr)


def devices_of(chosen: tuple[str, ...], local_rank: int, workers: int) -> tuple[str, ...]:
    """A single worker gets every device, several get one each; more workers than devices share them."""
    if workers == 1 or not chosen:
        return chosen
    return (chosen[local_rank % len(chosen)],)


def command_line(spec: JobSpec, rank: int, local_rank: int) -> tuple[str, ...]:
    args = spec.command.args
    if spec.legacy_local_rank:
        args = (f"--local-rank={0 if spec.virtual_local_rank else local_rank}", *args)
    args = tuple(
        arg.replace("${rank}", str(rank)).replace("${local_rank}", str(local_rank)) if "${" in arg else arg
        for arg in args
    )
    return (*_program(spec.command), *args)


def _program(command: Command) -> tuple[str, ...]:
    if command.kind == "module":
        return command.python, "-u", "-m", command.target
    if command.kind == "script":
        # A name that begins with a dash would be taken for a flag of python's.
        return command.python, "-u", f"./{command.target}" if command.target.startswith("-") else command.target
    return (command.target,)


def _log_paths(spec: JobSpec, rank: int) -> tuple[str, str]:
    """Both streams share workerlog.N, but for those that -r and -t put into files of their own."""
    both = f"{spec.log.directory}/workerlog.{rank}"
    split = spec.log.split(rank)
    return f"{both}.out" if split & OUT else both, f"{both}.err" if split & ERR else both
