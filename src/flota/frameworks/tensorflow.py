"""TensorFlow: TF_CONFIG, written by hand because its parts need no escaping and json costs a start 10 ms."""

from __future__ import annotations

from flota.errors import VariableTooLong
from flota.job.plan import Worker
from flota.job.roster import Roster
from flota.job.spec import JobSpec

SHOWN = ("TF_CONFIG",)
LONGEST_VARIABLE = 128 * 1024 - len("TF_CONFIG=") - 1  # what the kernel takes for one string


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    hosts = ", ".join(f'"{endpoint}"' for endpoint in roster.endpoints())
    config = f'{{"cluster": {{"worker": [{hosts}]}}, "task": {{"type": "worker", "index": {worker.rank}}}}}'
    if len(config) <= LONGEST_VARIABLE:
        return {"TF_CONFIG": config}
    if spec.frameworks == ("tensorflow",):
        raise VariableTooLong("TF_CONFIG", len(config))
    return {}
