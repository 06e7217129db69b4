"""Paddle, collective: what `paddle.distributed.launch` gives."""

from __future__ import annotations

from flota.job.plan import Worker
from flota.job.roles import TRAINER
from flota.job.roster import Roster, endpoint
from flota.job.spec import DeviceSet, JobSpec

SHOWN = (
    "PADDLE_CURRENT_ENDPOINT",
    "PADDLE_TRAINERS_NUM",
    "FLAGS_selected_gpus",
    "PADDLE_PSERVERS_IP_PORT_LIST",
    "PADDLE_TRAINER_ENDPOINTS",
    "PADDLE_TRAINER_ID",
)
DROPPED_PROXIES = ("http_proxy", "https_proxy")
LONGEST_LIST = 48000  # Paddle's own limit for the list of endpoints in the environment
CUSTOM_DEVICES = ("npu", "mlu", "gcu", "iluvatar_gpu", "intel_hpu", "musa")


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    endpoints = roster.endpoints(worker.role)
    rank, local_rank, world = str(worker.rank), str(worker.local_rank), str(worker.size)
    master = roster.master(worker.role)
    given = {
        "PADDLE_MASTER": endpoint(master.address, master.ports.paddle) if worker.role == spec.main else endpoints[0],
        "PADDLE_GLOBAL_SIZE": world,
        "PADDLE_GLOBAL_RANK": rank,
        "PADDLE_LOCAL_SIZE": str(worker.local_size),
        "PADDLE_LOCAL_RANK": local_rank,
        "PADDLE_NNODES": str(len(roster.seats)),
        "PADDLE_CURRENT_ENDPOINT": endpoints[worker.rank],
        "PADDLE_TRAINER_ID": rank,
        "PADDLE_TRAINERS_NUM": world,
        "PADDLE_RANK_IN_NODE": local_rank,
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_AUTO_CLUSTER": "0",
        "PADDLE_LOG_DIR": spec.log.directory,
        "POD_NAME": roster.seats[worker.seat].host,
    }
    if len(given["PADDLE_TRAINER_ENDPOINTS"]) >= LONGEST_LIST:
        del given["PADDLE_TRAINER_ENDPOINTS"]
        given["PADDLE_BACKUP_ENV_PATH"] = backup_file(spec, worker)
    given.update(device_variables(spec, worker))
    return given


def backup_file(spec: JobSpec, worker: Worker) -> str:
    """Where Paddle looks for a variable that its environment lacks."""
    own = str(worker.rank) if worker.name == TRAINER else f"{worker.name}.{worker.rank}"
    return f"{spec.log.directory}/backup_env.{own}.json"


def backed_up(roster: Roster, worker: Worker) -> dict[str, str]:
    """What is too long for the environment; flota's own values only, never the user's."""
    endpoints = ",".join(roster.endpoints(worker.role))
    return {"PADDLE_TRAINER_ENDPOINTS": endpoints} if len(endpoints) >= LONGEST_LIST else {}


def device_variables(spec: JobSpec, worker: Worker) -> dict[str, str]:
    kind = spec.devices_for(spec.all_roles[worker.role]).kind
    given: dict[str, str] = {}
    if kind == "cpu":
        given["PADDLE_DISTRI_BACKEND"] = "gloo"
    else:
        given[f"FLAGS_selected_{kind}s"] = _indices(spec, worker)
        if kind in CUSTOM_DEVICES:
            given["PADDLE_DISTRI_BACKEND"] = "xccl"
            given["PADDLE_XCCL_BACKEND"] = kind
    if spec.backend != "auto":
        given["PADDLE_DISTRI_BACKEND"] = spec.backend
    return given


def _indices(spec: JobSpec, worker: Worker) -> str:
    """Paddle names a device by its index in the list of visible ones that the worker sees."""
    role = spec.all_roles[worker.role]
    if spec.virtual_local_rank or role.private:
        return ",".join(str(index) for index in range(len(worker.devices)))
    seen = listed_for_paddle(spec.devices_for(role), alone=spec.frameworks == ("paddle",))
    return ",".join(str(seen.index(device)) for device in worker.devices)


def listed_for_paddle(devices: DeviceSet, *, alone: bool) -> tuple[str, ...]:
    return devices.visible if alone else devices.chosen
