"""Settings to roles: which mode a job is in, and how many workers of which role this node starts.

Counts are of this node; lists of addresses (cli/listing.py) are of the whole job; tables (cli/mixture.py) name roles of
the user's own.
"""

from __future__ import annotations

from flota.cli.settings import Settings, strength
from flota.devices import choose_devices
from flota.errors import BadValue, Contradiction, NoDevices
from flota.errors.roles import NoTrainers
from flota.job.roles import COORDINATOR, HETER, MIXED, PS, PS_HETER, RPC, SERVER, TRAINER, Role, in_order
from flota.job.spec import DeviceSet
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PS_FLAGS = ("server_num", "trainer_num", "servers", "trainers", "coordinators", "coordinator_num")
HETER_FLAGS = ("heter_workers", "heter_worker_num", "heter_devices")
# How many there are, by number and by list; the same two ways for each role of a parameter-server job.
BOTH_WAYS = {
    SERVER: ("server_num", "servers"),
    COORDINATOR: ("coordinator_num", "coordinators"),
    HETER: ("heter_worker_num", "heter_workers"),
    TRAINER: ("trainer_num", "trainers"),
}


class Cast(NamedTuple):
    """A job's mode and roles; `hosts` are all its nodes where the user has listed them, `flag` where that was."""

    mode: str
    roles: tuple[Role, ...] = ()
    hosts: tuple[str, ...] = ()
    flag: str = ""
    gloo_port: int | None = None


def choose_mode(settings: Settings) -> str:
    """As --run_mode says, which must not contradict the other flags; without it as they say."""
    heter = next(filter(None, map(settings.source, HETER_FLAGS)), None)
    servers = next(filter(None, map(settings.source, PS_FLAGS)), None)
    own = settings.source("roles") or (settings.tables and f"`roles` in {settings.tables_from}") or None
    implied = PS_HETER if heter else PS if servers else MIXED if own else None
    flag = heter or servers or own
    asked = str(settings["run_mode"])
    source = settings.source("run_mode")
    if own and (heter or servers):
        raise Contradiction(str(own), str(heter or servers), "both say which roles there are")
    if not source or (asked == PS_HETER and implied == PS):
        return implied if not source and implied else asked
    if implied and implied != asked:
        raise Contradiction(f"{source} {asked}", str(flag), f"that is for {'jobs with roles' if own else implied}")
    return asked


def make_cast(settings: Settings, found: DeviceSet, devices: DeviceSet) -> Cast:
    """For parameter servers, with and without heterogeneous workers, and for rpc."""
    mode = choose_mode(settings)
    if mode == RPC:
        return Cast(RPC)
    _refuse_what_does_not_fit(settings, mode)
    listing = [lists for _, lists in BOTH_WAYS.values() if settings.source(lists)]
    if listing:
        from flota.cli.listing import read_listing

        cast = read_listing(settings, mode)
    else:
        cast = Cast(mode, tuple(_counted(settings, mode)))
    none = choose_devices(found, "cpu")
    kinds = _device_kinds(settings, cast.roles, devices)
    roles = [_equipped(role, kinds.get(role.stage, ""), devices, none) for role in cast.roles]
    given: Any = settings["gloo_port"]
    port = int(given) if settings.source("gloo_port") or listing else None
    return cast._replace(roles=in_order(roles), gloo_port=port)


def _refuse_what_does_not_fit(settings: Settings, mode: str) -> None:
    for number, lists in BOTH_WAYS.values():
        one, other = settings.source(number), settings.source(lists)
        if one and other and strength(one) == strength(other):
            raise Contradiction(one, other, "both say how many there are")
    workers = settings.source("nproc_per_node")
    if workers and workers.startswith("-"):
        raise Contradiction(workers, f"--run_mode {mode}", "--trainer_num says how many trainers there are")
    if settings["interactive"]:
        raise Contradiction("--interactive", f"--run_mode {mode}", "one worker can have the terminal")


def _counted(settings: Settings, mode: str) -> list[Role]:
    """So many of each on this node; one server and one trainer unless told otherwise."""
    servers, trainers = _count(settings, "server_num", 1), _count(settings, "trainer_num", 1)
    if trainers == 0 and not (servers and settings.source("server_num")):
        raise NoTrainers(f"{settings.source('trainer_num')} 0", "--server_num 1 for a node of servers alone")
    if mode == PS_HETER and not settings.source("trainer_num"):
        flag = next(filter(None, map(settings.source, HETER_FLAGS)), f"--run_mode {mode}")
        raise NoTrainers(flag, "--trainer_num N beside it")
    roles = [Role(SERVER, servers), Role(COORDINATOR, _count(settings, "coordinator_num", 0))]
    roles += [Role(HETER, count, stage=stage) for stage, count in enumerate(_stage_sizes(settings), 2)]
    return [*(role for role in roles if role.workers or role.name != COORDINATOR), Role(TRAINER, trainers)]


def _count(settings: Settings, dest: str, otherwise: int) -> int:
    value: Any = settings[dest]
    return otherwise if value is None else int(value)


def _stage_sizes(settings: Settings) -> list[int]:
    source, word = settings.source("heter_worker_num"), str(settings["heter_worker_num"] or "")
    if not source:
        return []
    parts = [part.strip() for part in word.split(";")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise BadValue(source, word, "a number, or one for each stage", f"{source} 2 or {source} '1;2'")
    return [int(part) for part in parts]


def _device_kinds(settings: Settings, roles: tuple[Role, ...], devices: DeviceSet) -> dict[int, str]:
    """What each stage of heterogeneous workers computes on: as told, else what this machine shows."""
    stages = [role.stage for role in roles if role.name == HETER]
    source, word = settings.source("heter_devices"), str(settings["heter_devices"])
    if not source:
        return dict.fromkeys(stages, devices.kind)
    kinds = [part.strip() for part in word.split(";")]
    if len(kinds) == 1:
        kinds *= len(stages)
    if len(kinds) != len(stages) or not all(kinds):
        raise BadValue(source, word, f"one kind, or one for each of {len(stages)} stages", f"{source} 'gpu;cpu'")
    here = {kind for kind, role in zip(kinds, (one for one in roles if one.name == HETER), strict=True) if role.workers}
    for kind in here - {"cpu", devices.kind}:
        raise NoDevices(f"{source} {kind}")
    return dict(zip(stages, kinds, strict=True))


def _equipped(role: Role, kind: str, devices: DeviceSet, none: DeviceSet) -> Role:
    """Trainers and heterogeneous workers have a device each, where there are any; who serves has none."""
    computes = role.name == TRAINER or (role.name == HETER and kind != "cpu")
    return role._replace(
        serves=role.name != TRAINER,
        devices=devices if computes else none,
        private=computes,
        device_kind=kind if role.name == HETER else "",
    )
