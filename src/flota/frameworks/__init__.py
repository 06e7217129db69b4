"""What each framework reads from its environment: one small file each, from a worker's plan to variables."""

from __future__ import annotations

from flota.frameworks import jax, paddle, tensorflow, torch
from flota.job.plan import Worker, WorkerPlan
from flota.job.roles import COLLECTIVE, MIXED, PS, PS_HETER, RPC
from flota.job.roster import Roster, endpoint
from flota.job.spec import JobSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Variables = Callable[[JobSpec, Roster, Worker], dict[str, str]]

VARIABLES_OF: dict[str, Variables] = {
    "torch": torch.variables,
    "paddle": paddle.variables,
    "jax": jax.variables,
    "tensorflow": tensorflow.variables,
}
SHOWN_OF = {"torch": torch.SHOWN, "paddle": paddle.SHOWN, "jax": jax.SHOWN, "tensorflow": tensorflow.SHOWN}
KEPT = ("POD_NAME", "TORCH_NCCL_ASYNC_ERROR_HANDLING")  # the platform and the user know better
SECRETS = ("FLOTA_TOKEN", "FLOTA_TOKEN_FILE", "FLOTA_ETCD_PASSWORD", "FLOTA_ETCD_PASSWORD_FILE")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def equip(spec: JobSpec, roster: Roster, worker: Worker, environ: Mapping[str, str], channel: str = "") -> WorkerPlan:
    """The worker with all the variables it gets, on top of the node's own environment."""
    given: dict[str, str] = {}
    for variables in _variables_of(spec):
        given.update(variables(spec, roster, worker))
    given.update(_own_variables(spec, roster, worker))
    if spec.interface:
        told = interface_variables(spec.interface)
        given.update({name: value for name, value in told.items() if name not in environ})
    given = {name: value for name, value in given.items() if name not in KEPT or name not in environ}
    if spec.threads and (spec.threads_given or "OMP_NUM_THREADS" not in environ):
        given["OMP_NUM_THREADS"] = str(spec.threads)
    if channel:
        given["FLOTA_CHANNEL"] = channel
    given["FLOTA_GIVEN"] = ",".join(given)
    env = {name: "1" for name in ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER") if name not in environ}
    env.update(_visible_devices(spec, worker))
    dropped: tuple[str, ...] = SECRETS
    if spec.frameworks == ("paddle",):
        env.update({f"{name}_original": environ[name] for name in paddle.DROPPED_PROXIES if name in environ})
        dropped += paddle.DROPPED_PROXIES
    else:
        env.update(_direct_connections(roster, environ))
    env.update(given)
    env.update(spec.env)
    env.update(spec.all_roles[worker.role].env)
    return WorkerPlan(worker, env, dropped)


def _variables_of(spec: JobSpec) -> list[Variables]:
    """Each framework's, and what Paddle has for this mode in the place of its collective ones."""
    chosen = dict(VARIABLES_OF)
    if spec.mode in (PS, PS_HETER, RPC):
        from flota.frameworks import paddle_ps

        chosen["paddle"] = paddle_ps.rpc_variables if spec.mode == RPC else paddle_ps.variables
    found = [chosen[framework] for framework in spec.frameworks]
    if spec.mode == MIXED:
        from flota.frameworks import ps_lite

        found.append(ps_lite.variables)
    return found


def interface_variables(interface: str) -> dict[str, str]:
    """Names the network interface to what would otherwise look up the hostname: gloo (in torch and in Paddle), NCCL and
    torch's tensorpipe.
    """
    return dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"), interface)


def _own_variables(spec: JobSpec, roster: Roster, worker: Worker) -> dict[str, str]:
    address, port = torch.master_endpoint(spec, roster, worker)
    given = {
        "FLOTA_RANK": str(worker.rank),
        "FLOTA_LOCAL_RANK": str(worker.local_rank),
        "FLOTA_WORLD_SIZE": str(worker.size),
        "FLOTA_LOCAL_WORLD_SIZE": str(worker.local_size),
        "FLOTA_NODE_RANK": str(worker.seat),
        "FLOTA_NODES": str(len(roster.seats)),
        "FLOTA_ROLE": worker.name,
        "FLOTA_ROLE_RANK": str(worker.rank),
        "FLOTA_ATTEMPT": str(roster.attempt),
        "FLOTA_ROUND": str(roster.round),
        "FLOTA_JOB_ID": spec.job_id,
        "FLOTA_MASTER": endpoint(address, port),
        "FLOTA_DEVICE": ",".join(worker.devices) or "cpu",
        "FLOTA_LOG_DIR": spec.log.directory,
        "NODE_RANK": str(worker.seat),
    }
    if spec.mode not in (COLLECTIVE, RPC):
        given["FLOTA_ENDPOINT"] = roster.endpoints(worker.role)[worker.number]
        given.update(_endpoints_by_role(spec, roster))
    return given


def _endpoints_by_role(spec: JobSpec, roster: Roster) -> dict[str, str]:
    """Where each role's workers are, for scripts that talk to another role's."""
    found: dict[str, list[str]] = {}
    for number, role in enumerate(spec.all_roles):
        name = "".join(letter if letter.isalnum() else "_" for letter in role.name).upper()
        found.setdefault(f"FLOTA_ENDPOINTS_{name}", []).extend(roster.endpoints(number))
    return {name: ",".join(endpoints) for name, endpoints in found.items()}


def _visible_devices(spec: JobSpec, worker: Worker) -> dict[str, str]:
    """The list of visible devices, when it is not the inherited one.

    Paddle alone is told an index into the whole list and needs no narrowing; every other framework counts from 0
    in what it sees, so with `--devices 2,3` it must see 2 and 3 only.
    """
    role = spec.all_roles[worker.role]
    devices = spec.devices_for(role)
    if (spec.virtual_local_rank or role.private) and worker.devices:
        return {devices.variable: ",".join(worker.devices)}
    if devices.narrowed and (spec.frameworks != ("paddle",) or not devices.chosen):
        return {devices.variable: ",".join(devices.chosen)} if devices.variable else {}
    return {}


def _direct_connections(roster: Roster, environ: Mapping[str, str]) -> dict[str, str]:
    """Proxies stay, as scripts download data; the job's own addresses go around them."""
    if not any(environ.get(name) for name in PROXIES):
        return {}
    addresses = ["localhost", "127.0.0.1", *(seat.address for seat in roster.seats)]
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    around = [*filter(None, listed.split(",")), *addresses]
    value = ",".join(dict.fromkeys(around))
    return {"no_proxy": value, "NO_PROXY": value}
