"""Computes, from spec, roster and seat, the workers that one node starts. Pure."""

from __future__ import annotations

from flota.job.roles import TRAINER, Role, log_stem
from flota.job.roster import Roster
from flota.job.spec import ERR, OUT, Command, JobSpec, MachineShare
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.binding.modes import Binding

ERROR = "error"  # the file where a script that uses flota.record or torch's @record writes its traceback


class Worker(NamedTuple):
    """One worker: its role, ranks, devices, command and logs.

    `rank` counts all workers with the role's name; `local_rank` and `local_size` count those on this machine. `number`
    counts the workers of `role` only, which differs from `rank` if a name has several stages.
    """

    role: int
    name: str
    rank: int
    number: int
    size: int  # the number of workers that `rank` counts
    local_rank: int
    local_size: int
    seat: int
    devices: tuple[str, ...]
    argv: tuple[str, ...]
    stdout: str
    stderr: str
    binding: Binding | None = None
    machine: int = 0  # the number of the machine that this node runs on, and how many the job has
    machines: int = 1

    @property
    def logs(self) -> tuple[str, ...]:
        return (self.stdout,) if self.stdout == self.stderr else (self.stdout, self.stderr)


class WorkerPlan(NamedTuple):
    """A worker, the variables that are added to the node's environment for it, and those that are removed."""

    worker: Worker
    env: dict[str, str]
    dropped: tuple[str, ...] = ()


def plan_workers(spec: JobSpec, roster: Roster, seat_number: int) -> tuple[Worker, ...]:
    """Return the workers in start order."""
    workers: list[Worker] = []
    here = roster.seats[seat_number]
    share = spec.share or MachineShare(0, 1, seat_number, len(roster.seats))
    for role_number, role in enumerate(spec.all_roles):
        first = roster.first_rank(seat_number, role_number)
        numbers = role.own or range(first, first + here.workers_of(role_number))
        stages = [other for other, one in enumerate(spec.all_roles) if one.name == role.name]
        before = [other for other in stages if other < role_number]
        offset = sum(roster.size(other) for other in before)
        own_size = sum(here.workers_of(other) for other in stages)
        first_local = share.local_rank * own_size + sum(here.workers_of(other) for other in before)
        local_size = share.local_size * own_size
        for local_rank, number in enumerate(numbers, first_local):
            rank = offset + number
            stdout, stderr = _log_paths(spec, role_number, rank)
            workers.append(
                Worker(
                    role_number,
                    role.name,
                    rank,
                    number,
                    sum(roster.size(other) for other in stages),
                    local_rank,
                    local_size,
                    seat_number,
                    devices_of(spec.devices_for(role).chosen, local_rank, local_size, private=role.private),
                    command_line(spec, role, rank, local_rank),
                    stdout,
                    stderr,
                    spec.bindings[len(workers)] if spec.bindings else None,
                    share.machine,
                    share.machines,
                )
            )
    return tuple(workers)


def devices_of(chosen: tuple[str, ...], local_rank: int, workers: int, *, private: bool = False) -> tuple[str, ...]:
    """Return a worker's devices: all for a single worker, one each for several or `private` ones; they may share."""
    if not chosen or (workers == 1 and not private):
        return chosen
    return (chosen[local_rank % len(chosen)],)


def command_line(spec: JobSpec, role: Role, rank: int, local_rank: int) -> tuple[str, ...]:
    command = role.command or spec.command
    args = command.args
    if spec.legacy_local_rank:
        args = (f"--local-rank={0 if spec.virtual_local_rank else local_rank}", *args)
    args = tuple(
        arg.replace("${rank}", str(rank)).replace("${local_rank}", str(local_rank)) if "${" in arg else arg
        for arg in args
    )
    return (*_program(command), *args)


def _program(command: Command) -> tuple[str, ...]:
    if command.kind == "module":
        return command.python, "-u", "-m", command.target
    if command.kind == "script":
        # Python would parse a name that begins with a dash as a flag.
        return command.python, "-u", f"./{command.target}" if command.target.startswith("-") else command.target
    return (command.target,)


def _log_paths(spec: JobSpec, role: int, rank: int) -> tuple[str, str]:
    """Return the paths of both streams: workerlog.N, or separate files for ranks of the main role under -r and -t."""
    both = f"{spec.log.directory}/{log_stem(spec.all_roles[role].name)}.{rank}"
    split = spec.log.split(rank) if role == spec.main else 0
    return f"{both}.out" if split & OUT else both, f"{both}.err" if split & ERR else both


def own_file(spec: JobSpec, worker: Worker, kind: str) -> str:
    """Return the path of a worker's own file in the log directory."""
    return own_file_of(spec.log.directory, worker.name, worker.rank, kind)


def own_file_of(directory: str, role: str, rank: int, kind: str) -> str:
    own = str(rank) if role == TRAINER else f"{role}.{rank}"
    return f"{directory}/{kind}.{own}.json"


def lead_role(spec: JobSpec, roster: Roster) -> int:
    """Return the role whose rank 0 is shown: the main one, or the first if the job has no workers of that."""
    return spec.main if roster.size(spec.main) else 0


def roles_of(spec: JobSpec, roster: Roster, workers: tuple[Worker, ...]) -> tuple[Role, ...]:
    """Return each worker's role. In a job of servers only, `serves` is unset: the job ends when they exit."""
    used = any(roster.size(number) for number, role in enumerate(spec.all_roles) if not role.serves)
    return tuple(
        role if used else role._replace(serves=False) for role in (spec.all_roles[worker.role] for worker in workers)
    )
