"""Variables of jobs with parameter servers: those of `paddle.distributed.launch` in ps, ps-heter and rpc mode, and
those of ps-lite, whose servers and workers find each other through a scheduler.
"""

from __future__ import annotations

from flota.frameworks.paddle import device_variables
from flota.job.plan import Worker
from flota.job.roles import COORDINATOR, HETER, PS_HETER, SERVER, TRAINER
from flota.job.roster import Roster, endpoint, split_endpoint
from flota.job.spec import JobSpec

HTTP = "3"  # how gloo's members find each other: 1: HDFS, 2: a local file system, 3: an HTTP server
WORDS = {SERVER: "PSERVER", TRAINER: "TRAINER", HETER: "HETER_TRAINER", COORDINATOR: "COORDINATOR"}
SCHEDULER = "scheduler"
PS_LITE_WORDS = {SCHEDULER: SCHEDULER, SERVER: SERVER, TRAINER: "worker", "worker": "worker"}


def ps_variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    address, port = split_endpoint(roster.endpoints(worker.role)[worker.number])
    trainers, servers = _all(spec, roster, TRAINER), _all(spec, roster, SERVER)
    # The first server also serves gloo's rendezvous: one port for the whole job.
    seat = roster.master(spec.first_of(SERVER))
    gloo = str(spec.gloo_port) if spec.gloo_port else seat.ports.paddle
    given = {
        "TRAINING_ROLE": WORDS[worker.name],
        "PADDLE_ROLE": WORDS[worker.name],
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(servers),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(trainers),
        "PADDLE_COORDINATOR_ENDPOINTS": ",".join(_all(spec, roster, COORDINATOR)),
        "PADDLE_TRAINERS_NUM": str(len(trainers)),
        "PADDLE_PORT": port,
        "POD_IP": address,
        "PADDLE_NNODES": str(worker.machines),
        "PADDLE_WITH_GLOO": spec.gloo,
        "PADDLE_GLOO_RENDEZVOUS": HTTP,
        "PADDLE_GLOO_FS_PATH": f"{spec.log.directory}/gloo",
        "PADDLE_GLOO_HTTP_ENDPOINT": endpoint(split_endpoint(servers[0])[0] if servers else seat.address, gloo),
        "PADDLE_LOG_DIR": spec.log.directory,
        "POD_NAME": roster.seats[worker.seat].host,
    }
    if worker.name in (TRAINER, COORDINATOR):
        given["PADDLE_TRAINER_ID"] = str(worker.rank)
    if worker.name == COORDINATOR:
        given["PADDLE_COORDINATOR_NUM"] = str(len(_all(spec, roster, COORDINATOR)))
    if worker.devices:
        given.update(device_variables(spec, worker))
    if spec.mode == PS_HETER:
        given.update(_heter_variables(spec, roster, worker))
    return given


def _heter_variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    """Return the variables of pipeline stages: trainers are the first stage, heterogeneous workers the others."""
    given = {"PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST": ",".join(_all(spec, roster, HETER))}
    if worker.name not in (TRAINER, HETER):
        return given
    stages = [_all(spec, roster, TRAINER)]
    stages += [list(roster.endpoints(number)) for number, role in enumerate(spec.all_roles) if role.name == HETER]
    own = max(spec.all_roles[worker.role].stage, 1)
    return {
        **given,
        "STAGE_ID": str(own),
        "STAGE_NUM": str(len(stages)),
        "PADDLE_STAGE_TRAINERS_NUM": str([len(stage) for stage in stages]),
        "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST": ",".join(stages[own]) if own < len(stages) else "",
        "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST": ",".join(stages[own - 2]) if own > 1 else "",
        "HETER_DEVICE_TYPE": spec.all_roles[worker.role].device_kind or "cpu",
    }


def _all(spec: JobSpec, roster: Roster, name: str) -> list[str]:
    numbers = [number for number, role in enumerate(spec.all_roles) if role.name == name]
    return [address for number in numbers for address in roster.endpoints(number)]


def rpc_variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    master = roster.master()
    return {
        "PADDLE_MASTER_ENDPOINT": endpoint(master.address, master.ports.paddle),
        "PADDLE_WORKER_ENDPOINT": roster.endpoints()[worker.rank],
        "PADDLE_TRAINER_ID": str(worker.rank),
        "PADDLE_TRAINERS_NUM": str(roster.size()),
        "PADDLE_LOG_DIR": spec.log.directory,
        "POD_NAME": roster.seats[worker.seat].host,
    }


def ps_lite_variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    """Return the variables of ps-lite, as used by MXNet and BytePS; none if the job has no scheduler."""
    found: dict[str, tuple[str, ...]] = {}
    for number, role in enumerate(spec.all_roles):
        word = PS_LITE_WORDS.get(role.name, role.name)
        found[word] = found.get(word, ()) + roster.endpoints(number)
    if not found.get(SCHEDULER) or worker.name not in PS_LITE_WORDS:
        return {}
    address, port = split_endpoint(found[SCHEDULER][0])
    given = {
        "DMLC_ROLE": PS_LITE_WORDS[worker.name],
        "DMLC_PS_ROOT_URI": address,
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_NUM_SERVER": str(len(found.get(SERVER, ()))),
        "DMLC_NUM_WORKER": str(len(found.get("worker", ()))),
        "DMLC_NODE_HOST": split_endpoint(roster.endpoints(worker.role)[worker.number])[0],
    }
    if PS_LITE_WORDS[worker.name] == "worker":
        given["DMLC_WORKER_ID"] = str(worker.rank)
    return given
