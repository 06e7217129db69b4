"""TensorFlow: TF_CONFIG. It needs no escaping, so it is formatted here: importing json would add 10 ms to the start."""

from __future__ import annotations

from flota.errors import VariableTooLong
from flota.frameworks import Framework
from flota.job.plan import Worker
from flota.job.roles import SERVER, TRAINER
from flota.job.roster import Roster
from flota.job.spec import JobSpec

LONGEST_VARIABLE = 128 * 1024 - len("TF_CONFIG=") - 1  # the kernel's limit for one string
TASKS = {TRAINER: "worker", SERVER: "ps", "chief": "chief", "worker": "worker", "ps": "ps", "evaluator": "evaluator"}


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    """Return TF_CONFIG; nothing for a role that TensorFlow does not have."""
    task = TASKS.get(worker.name)
    if task is None:
        return {}
    # Two roles may have the same task: `server` and `ps`.
    before = [number for number, role in enumerate(spec.all_roles[: worker.role]) if TASKS.get(role.name) == task]
    index = sum(roster.size(number) for number in before) + worker.number
    config = f'{{"cluster": {{{_cluster(spec, roster, task)}}}, "task": {{"type": "{task}", "index": {index}}}}}'
    if len(config) <= LONGEST_VARIABLE:
        return {"TF_CONFIG": config}  # the cluster, and the worker's task in it
    if spec.frameworks == ("tensorflow",):
        raise VariableTooLong("TF_CONFIG", len(config))
    return {}


def _cluster(spec: JobSpec, roster: Roster, own_task: str) -> str:
    """Return the cluster as JSON. An evaluator is listed only in its own TF_CONFIG."""
    tasks: dict[str, list[str]] = {}
    for number, role in enumerate(spec.all_roles):
        task = TASKS.get(role.name)
        if task and (task != "evaluator" or own_task == "evaluator"):
            tasks.setdefault(task, []).extend(roster.endpoints(number))
    texts = {task: ", ".join(f'"{endpoint}"' for endpoint in endpoints) for task, endpoints in tasks.items()}
    return ", ".join(f'"{task}": [{text}]' for task, text in texts.items() if text)


FRAMEWORK = Framework("TensorFlow", variables, shown=("TF_CONFIG",), short="tf", may_be_left_out="TF_CONFIG")
