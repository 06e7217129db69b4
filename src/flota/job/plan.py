"""(spec, roster, seat) to the workers that one node starts. Arithmetic only. Pure."""

from __future__ import annotations

from flota.job.roles import TRAINER, Role, log_stem
from flota.job.roster import Roster
from flota.job.spec import ERR, OUT, Command, JobSpec
from flota.values import NamedTuple

ERROR = "error"  # the file where a script that uses flota.record or torch's @record writes its traceback


class Worker(NamedTuple):
    """One worker's place: its role and its numbers in it, its devices, its command and its logs.

    `rank` counts all workers of the role's name, `local_rank` and `local_size` those on this node; `number` is of its
    `role` alone, which differs where a name has several stages.
    """

    role: int
    name: str
    rank: int
    number: int
    size: int  # of all that the rank counts
    local_rank: int
    local_size: int
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
    """In the order in which they start."""
    workers: list[Worker] = []
    here = roster.seats[seat_number]
    for role_number, role in enumerate(spec.all_roles):
        first = roster.first_rank(seat_number, role_number)
        numbers = role.own or range(first, first + here.workers_of(role_number))
        stages = [other for other, one in enumerate(spec.all_roles) if one.name == role.name]
        before = [other for other in stages if other < role_number]
        offset = sum(roster.size(other) for other in before)
        local_size = sum(here.workers_of(other) for other in stages)
        for local_rank, number in enumerate(numbers, sum(here.workers_of(other) for other in before)):
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
                )
            )
    return tuple(workers)


def devices_of(chosen: tuple[str, ...], local_rank: int, workers: int, *, private: bool = False) -> tuple[str, ...]:
    """A single worker gets every device, several (and `private` ones) get one each; more workers than devices share."""
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
        # A name that begins with a dash would be taken for a flag of python's.
        return command.python, "-u", f"./{command.target}" if command.target.startswith("-") else command.target
    return (command.target,)


def _log_paths(spec: JobSpec, role: int, rank: int) -> tuple[str, str]:
    """Both streams share workerlog.N, but for those of the main role that -r and -t put into files of their own."""
    both = f"{spec.log.directory}/{log_stem(spec.all_roles[role].name)}.{rank}"
    split = spec.log.split(rank) if role == spec.main else 0
    return f"{both}.out" if split & OUT else both, f"{both}.err" if split & ERR else both


def own_file(spec: JobSpec, worker: Worker, kind: str) -> str:
    """A file in the log directory that is one worker's."""
    own = str(worker.rank) if worker.name == TRAINER else f"{worker.name}.{worker.rank}"
    return f"{spec.log.directory}/{kind}.{own}.json"


def lead_role(spec: JobSpec, roster: Roster) -> int:
    """The role whose number 0 people watch: the main one, or the first where the job has nobody of that."""
    return spec.main if roster.size(spec.main) else 0


def roles_of(spec: JobSpec, roster: Roster, workers: tuple[Worker, ...]) -> tuple[Role, ...]:
    """Each worker's role. Servers that nobody uses serve nobody: a job of servers alone ends when they do."""
    used = any(roster.size(number) for number, role in enumerate(spec.all_roles) if not role.serves)
    return tuple(
        role if used else role._replace(serves=False) for role in (spec.all_roles[worker.role] for worker in workers)
    )
