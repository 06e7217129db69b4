"""Paddle, collective: what `paddle.distributed.launch` gives."""

from __future__ import annotations

from flota.job.plan import Worker
from flota.job.roster import Roster, endpoint
from flota.job.spec import DeviceSet, JobSpec

SHOWN = (
    "PADDLE_CURRENT_ENDPOINT",
    "PADDLE_TRAINERS_NUM",
    "FLAGS_selected_gpus",
    "PADDLE_TRAINER_ENDPOINTS",
    "PADDLE_TRAINER_ID",
)
DROPPED_PROXIES = ("http_proxy", "https_proxy")
LONGEST_LIST = 48000  # Paddle's own limit for the list of endpoints in the environment
CUSTOM_DEVICES = ("npu", "mlu", "gcu", "iluvatar_gpu", "intel_hpu", "musa")


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    endpoints = roster.endpoints()
    rank, local_rank, world = str(worker.rank), str(worker.local_rank), str(roster.world_size)
    given = {
        "PADDLE_MASTER": endpoint(roster.master.address, roster.master.ports.paddle),
        "PADDLE_GLOBAL_SIZE": world,
        "PADDLE_GLOBAL_RANK": rank,
        "PADDLE_LOCAL_SIZE": str(roster.seats[worker.seat].workers),
        "PADDLE_LOCAL_RANK": local_rank,
        "PADDLE_NNODES": str(len(roster.seats)),
        "PADDLE_CURRENT_ENDPOINT": endpoints[worker.rank],
        "PADDLE_TRAINER_ID": rank,
        "PADDLE_TRAINERS_NUM": world,
        "PADDLE_RANK_IN_NODE": local_rank,
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_AUTO_CLUSTER": "0",
        "PADDLE_LOG_DIR": spec.log.directory,
        "POD_NAME": f"{roster.seats[worker.seat].node}",
    }
    if len(given["PADDLE_TRAINER_ENDPOINTS"]) >= LONGEST_LIST:
        del given["PADDLE_TRAINER_ENDPOINTS"]
        given["PADDLE_BACKUP_ENV_PATH"] = backup_file(spec, worker.rank)
    given.update(_device_variables(spec, worker))
    return given


def backup_file(spec: JobSpec, rank: int) -> str:
    """Where Paddle looks for a variable that its environment lacks."""
    return f"{spec.log.directory}/backup_env.{rank}.json"


def backed_up(roster: Roster) -> dict[str, str]:
    """What is too long for the environment; flota's own values only, never the user's."""
    endpoints = ",".join(roster.endpoints())
    return {"PADDLE_TRAINER_ENDPOINTS": endpoints} if len(endpoints) >= LONGEST_LIST else {}


def _device_variables(spec: JobSpec, worker: Worker) -> dict[str, str]:
    kind = spec.devices.kind
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
    if spec.virtual_local_rank:
        return ",".join(str(index) for index in range(len(worker.devices)))
    seen = listed_for_paddle(spec.devices, alone=spec.frameworks == ("paddle",))
    return ",".join(str(seen.index(device)) for device in worker.devices)


def listed_for_paddle(devices: DeviceSet, *, alone: bool) -> tuple[str, ...]:
    return devices.visible if alone else devices.chosen
