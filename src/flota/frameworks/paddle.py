"""Paddle in collective mode: the variables of `paddle.distributed.launch`."""

from __future__ import annotations

from flota.frameworks import Framework, master_endpoint
from flota.job.plan import Worker, own_file
from flota.job.roles import PS, PS_HETER, RPC
from flota.job.roster import Roster
from flota.job.spec import JobSpec

LONGEST_LIST = 48000  # Paddle's limit for the list of endpoints in the environment
BACKUP = "backup_env"  # the file in which Paddle looks for a variable that is not set
CUSTOM_DEVICES = ("npu", "mlu", "gcu", "iluvatar_gpu", "intel_hpu", "musa")


def variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    if spec.mode in (PS, PS_HETER, RPC):
        from flota.frameworks.parameter_servers import ps_variables, rpc_variables

        return (rpc_variables if spec.mode == RPC else ps_variables)(spec, roster, worker)
    endpoints = roster.endpoints(worker.role)
    rank, local_rank, world = str(worker.rank), str(worker.local_rank), str(worker.size)
    given = {
        # PADDLE_MASTER: where rank 0 serves Paddle's store
        "PADDLE_MASTER": master_endpoint(spec, roster, worker, "paddle"),
        "PADDLE_GLOBAL_SIZE": world,  # number of workers in the job
        "PADDLE_GLOBAL_RANK": rank,  # the worker's rank in the job
        "PADDLE_LOCAL_SIZE": str(worker.local_size),  # number of workers on this machine
        "PADDLE_LOCAL_RANK": local_rank,  # the worker's rank on this machine
        "PADDLE_NNODES": str(worker.machines),  # number of machines in the job
        "PADDLE_CURRENT_ENDPOINT": endpoints[worker.rank],  # this worker's address and port
        "PADDLE_TRAINER_ID": rank,  # the worker's rank in the job
        "PADDLE_TRAINERS_NUM": world,  # number of workers in the job
        "PADDLE_RANK_IN_NODE": local_rank,  # the worker's rank on this machine
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),  # the addresses and ports of all workers, in rank order
        "PADDLE_AUTO_CLUSTER": "0",  # always 0: auto-parallel is not supported
        "PADDLE_LOG_DIR": spec.log.directory,  # `--log_dir` as an absolute path
        "POD_NAME": roster.seats[worker.seat].host,  # this machine's name; not changed if already set
    }
    if len(given["PADDLE_TRAINER_ENDPOINTS"]) >= LONGEST_LIST:
        del given["PADDLE_TRAINER_ENDPOINTS"]
        given["PADDLE_BACKUP_ENV_PATH"] = own_file(spec, worker, BACKUP)
    given.update(device_variables(spec, worker))
    return given


def backup(spec: JobSpec, roster: Roster, worker: Worker) -> tuple[str, dict[str, str]] | None:
    """Return the file for values that are too long for the environment. It never contains the user's variables."""
    endpoints = ",".join(roster.endpoints(worker.role))
    if len(endpoints) < LONGEST_LIST:
        return None
    return own_file(spec, worker, BACKUP), {"PADDLE_TRAINER_ENDPOINTS": endpoints}


def device_variables(spec: JobSpec, worker: Worker) -> dict[str, str]:
    role = spec.all_roles[worker.role]
    devices = spec.devices_for(role)
    kind = devices.kind
    given: dict[str, str] = {}
    # PADDLE_DISTRI_BACKEND: `--backend`, or `gloo` without devices, or `xccl` on npu, mlu and other custom devices
    # FLAGS_selected_gpus: the worker's device as an index into the visible ones; also `FLAGS_selected_xpus` …
    if kind == "cpu":
        given["PADDLE_DISTRI_BACKEND"] = "gloo"
    else:
        # Paddle identifies a device by its index in the list of devices that are visible to the worker.
        seen = devices.visible if spec.frameworks == ("paddle",) else devices.chosen
        if spec.virtual_local_rank or role.private:
            seen = worker.devices
        given[f"FLAGS_selected_{kind}s"] = ",".join(str(seen.index(device)) for device in worker.devices)
        if kind in CUSTOM_DEVICES:
            given["PADDLE_DISTRI_BACKEND"] = "xccl"
            given["PADDLE_XCCL_BACKEND"] = kind
    if spec.backend != "auto":
        given["PADDLE_DISTRI_BACKEND"] = spec.backend
    return given


FRAMEWORK = Framework(
    "Paddle",
    variables,
    shown=(
        *("PADDLE_CURRENT_ENDPOINT", "PADDLE_TRAINERS_NUM", "FLAGS_selected_gpus"),
        *("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINER_ID"),
    ),
    shown_for_all=True,
    backup=backup,
    moved_alone=("http_proxy", "https_proxy"),
    all_devices_alone=True,
)
