"""ps-lite, and what is built on it (MXNet, BytePS): servers and workers find each other through a scheduler."""

from __future__ import annotations

from flota.job.plan import Worker
from flota.job.roles import SERVER, TRAINER
from flota.job.roster import Roster, split_endpoint
from flota.job.spec import JobSpec

SCHEDULER = "scheduler"
WORDS = {SCHEDULER: SCHEDULER, SERVER: SERVER, TRAINER: "worker", "worker": "worker"}


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    """Nothing where the job has no scheduler."""
    found: dict[str, tuple[str, ...]] = {}
    for number, role in enumerate(spec.all_roles):
        word = WORDS.get(role.name, role.name)
        found[word] = found.get(word, ()) + roster.endpoints(number)
    if not found.get(SCHEDULER) or worker.name not in WORDS:
        return {}
    address, port = split_endpoint(found[SCHEDULER][0])
    given = {
        "DMLC_ROLE": WORDS[worker.name],
        "DMLC_PS_ROOT_URI": address,
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_NUM_SERVER": str(len(found.get(SERVER, ()))),
        "DMLC_NUM_WORKER": str(len(found.get("worker", ()))),
        "DMLC_NODE_HOST": split_endpoint(roster.endpoints(worker.role)[worker.number])[0],
    }
    if WORDS[worker.name] == "worker":
        given["DMLC_WORKER_ID"] = str(worker.rank)
    return given
