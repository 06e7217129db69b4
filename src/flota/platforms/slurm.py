"""Slurm: a task of srun, or the shell of an allocation.

Only the variables of the step count. Those of the job are the same in the batch script, which would look like task 0 of
many. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.job.slurm_variables import allocated_nodes, is_task
from flota.job.spec import MachineShare
from flota.platforms import Hints
from flota.platforms.reading import FIRST_PORT, PORTS, Variables, as_name

GRACE = 28.0  # KillWait is 30 s by default
STEPS = 1009  # distance between the ports of two steps of a job
TURNS, NEXT = 4, 2003  # ports that are tried, and the distance between them: other jobs have the ports beside them


def detect(environ: Mapping[str, str]) -> Hints:
    variables = Variables("Slurm", environ)
    job = job_of(environ)
    step = variables.optional("SLURM_STEP_ID")
    return _of_task(variables, f"{job}.{step}", step) if is_task(environ) else _of_shell(variables, job)


def _of_shell(variables: Variables, job: str) -> Hints:
    nodes = sum(allocated_nodes(variables.environ))
    of_nodes = f"the {nodes} nodes" if nodes > 1 else "the node"
    on_node = variables.environ.get("SLURMD_NODENAME")  # salloc's shell runs on the machine of the user
    alone = f"not started by srun; running on this machine alone, not on {of_nodes} of job {job}; see --srun"
    return _complete(variables, Hints(alone="" if nodes <= 1 and on_node else alone, cpus=_cpus(variables, 1)), job)


def _of_task(variables: Variables, job: str, step: int) -> Hints:
    machines = variables.number("SLURM_STEP_NUM_NODES", 1)
    machine = variables.rank("SLURM_NODEID", machines, "SLURM_STEP_NUM_NODES")
    tasks = variables.number("SLURM_STEP_NUM_TASKS", 1)
    listed = "SLURM_STEP_NODELIST" if variables.environ.get("SLURM_STEP_NODELIST") else "SLURM_JOB_NODELIST"
    number = variables.number("SLURM_JOB_ID") + STEPS * step
    first, *spare = (FIRST_PORT + (number + turn * NEXT) % PORTS for turn in range(TURNS))
    hosts, name = variables.hosts(listed), variables.environ.get("SLURMD_NODENAME")
    # In a heterogeneous step, nodes are numbered by component, but listed by name.
    place = hosts.index(name) if name in hosts else machine
    if tasks <= machines:
        nodes, source, rank, rank_source, share = machines, "SLURM_STEP_NUM_NODES", machine, "SLURM_NODEID", None
    else:
        nodes, source, rank_source = tasks, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"
        rank = variables.rank(rank_source, tasks, source)
        local_size = _tasks_on(variables, place)
        local_rank = variables.rank("SLURM_LOCALID", local_size, "SLURM_STEP_TASKS_PER_NODE")
        share = MachineShare(local_rank, local_size, machine, machines)
    hints = Hints(source, nodes, rank, rank_source, share=share)
    if nodes > 1:
        # Only the first task: two of a machine could serve on different ports.
        serves = place == 0 and not variables.optional("SLURM_LOCALID")
        hints = hints._replace(master=endpoint(hosts[0], str(first)), master_source=listed)
        hints = hints._replace(spare_ports=tuple(spare), may_serve=serves)
    allocated = allocated_nodes(variables.environ)
    if len(allocated) > 1 and machines < sum(allocated):
        alone = f"this step has {machines} of the {sum(allocated)} nodes of the job; see srun's --het-group"
        hints = hints._replace(alone=alone)
    return _complete(variables, hints._replace(cpus=_cpus(variables, share.local_size if share else 1)), job)


def _complete(variables: Variables, hints: Hints, job: str) -> Hints:
    """Add what does not depend on the layout."""
    workers, source = (1, hints.source) if hints.share else (variables.optional("SLURM_GPUS_ON_NODE"), "")
    return hints._replace(
        workers=workers,
        workers_source=source or "SLURM_GPUS_ON_NODE",
        job_id=job,
        job_source="SLURM_ARRAY_JOB_ID" if variables.environ.get("SLURM_ARRAY_JOB_ID") else "SLURM_JOB_ID",
        log_dir=f"log/{job}",
        grace=GRACE,
        restarts=variables.optional("SLURM_RESTART_COUNT"),  # set in a job that was requeued
    )


def job_of(environ: Mapping[str, str]) -> str:
    """Return the job as Slurm's own commands write it: `12`, or `13_1` for a task of an array."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    return as_name(f"{array}_{task}" if array and task else environ["SLURM_JOB_ID"])


def _cpus(variables: Variables, tasks: int) -> int:
    """Return the CPUs of this task. Without --cpus-per-task, several tasks of a machine have equal shares."""
    own = variables.optional("SLURM_CPUS_PER_TASK")
    return own or (variables.optional("SLURM_CPUS_ON_NODE") // tasks if tasks > 1 else 0)


def _tasks_on(variables: Variables, machine: int) -> int:
    """Return the number of tasks of a machine of the step: `4(x2),3` means 4, 4 and 3."""
    name = "SLURM_STEP_TASKS_PER_NODE"
    for word in variables.environ.get(name, "").split(","):
        count, _, rest = word.partition("(x")
        times = rest.removesuffix(")") or "1"
        if not (count.isdecimal() and times.isdecimal() and int(count)):
            break
        if machine < int(times):
            return int(count)
        machine -= int(times)
    raise variables.error(name, "a list of numbers of tasks")
