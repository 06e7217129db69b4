"""Settings to roles: which mode a job is in, and how many workers of which role this node starts.

Counts are of this node; lists of addresses (--servers, --trainers and their like) are of the whole job; tables
(role_tables.py) name roles of the user's own.
"""

from __future__ import annotations

from itertools import count

from flota.cli.build_spec import RoleSet
from flota.cli.convert import LAST_PORT, MOST_WORKERS
from flota.cli.nodes import find_own_rank
from flota.cli.settings import Settings, strength
from flota.devices import choose_devices
from flota.errors import BadValue, Contradiction, NoAddresses, NoDevices, NoneOfRole, TwiceListed
from flota.job.roles import (
    COLLECTIVE,
    COORDINATOR,
    HETER,
    MIXED,
    PS,
    PS_HETER,
    RPC,
    SERVER,
    TRAINER,
    Role,
    in_order,
)
from flota.job.roster import endpoint, split_endpoint
from flota.job.spec import DeviceSet

PS_FLAGS = ("server_num", "trainer_num", "servers", "trainers", "coordinators", "coordinator_num")
FIRST_PORT = 6170  # Paddle's own for servers; trainers that are listed without ports come behind them
HETER_FLAGS = ("heter_workers", "heter_worker_num", "heter_devices")
# How many there are, by number and by list; the same two ways for each role of a parameter-server job.
BOTH_WAYS = {
    SERVER: ("server_num", "servers"),
    COORDINATOR: ("coordinator_num", "coordinators"),
    HETER: ("heter_worker_num", "heter_workers"),
    TRAINER: ("trainer_num", "trainers"),
}


def choose_mode(settings: Settings) -> str:
    """As --run_mode says, or as the other flags do. The stronger source wins; equal ones must not contradict."""
    heter, servers = _strongest(settings, HETER_FLAGS), _strongest(settings, PS_FLAGS)
    own = settings.source("roles") or (f"`roles` in {settings.tables_from}" if settings.tables else "")
    if own and (heter or servers):
        raise Contradiction(own, heter or servers, "both say which roles there are")
    implied = PS_HETER if heter else PS if servers else MIXED
    asked, source = str(settings["run_mode"]), settings.source("run_mode")
    fitting = {heter: (PS_HETER,), servers: (PS_HETER, PS), own: ()}
    against = max((flag for flag, modes in fitting.items() if flag and asked not in modes), key=strength, default="")
    if not against:
        return asked
    if strength(source) == strength(against):
        raise Contradiction(f"{source} {asked}", against, f"that is for {'jobs with roles' if own else implied}")
    return asked if strength(source) > strength(against) else implied


def _strongest(settings: Settings, dests: tuple[str, ...]) -> str:
    """How the user spelled what counts most of these."""
    return max(filter(None, map(settings.source, dests)), key=strength, default="")


def make_paddle_roles(settings: Settings, found: DeviceSet, devices: DeviceSet) -> RoleSet:
    """For parameter servers, with and without heterogeneous workers, and for jobs of equal workers."""
    mode = choose_mode(settings)
    if mode in (COLLECTIVE, RPC):
        return RoleSet(mode)
    refuse_other_counts(settings, f"--run_mode {mode}", "--trainer_num says how many trainers there are")
    for pair in BOTH_WAYS.values():
        one, other = map(settings.source, pair)
        if one and strength(one) == strength(other):
            raise Contradiction(one, other, "both say how many there are")
    # Lists say who there is, or numbers: the stronger source wins, whatever role it speaks of.
    numbers, lists = (_strongest(settings, dests) for dests in zip(*BOTH_WAYS.values(), strict=True))
    listed = bool(lists) and strength(lists) >= strength(numbers)
    role_set = read_role_addresses(settings, mode) if listed else RoleSet(mode, tuple(_counted(settings, mode)))
    none = choose_devices(found, "cpu")
    kinds = _device_kinds(settings, role_set.roles, devices)
    roles = [_equipped(role, kinds.get(role.stage, ""), devices, none) for role in role_set.roles]
    port = settings["gloo_port"] if settings.source("gloo_port") or listed else None
    return role_set._replace(roles=in_order(roles), gloo_port=port)


def refuse_other_counts(settings: Settings, roles: str, why: str) -> None:
    """What counts workers that have no role. A variable or a file may be meant for other jobs; a flag is not."""
    workers = settings.source("nproc_per_node")
    if workers.startswith("-"):
        raise Contradiction(workers, roles, why)
    if settings["interactive"]:
        raise Contradiction("--interactive", roles, "one worker can have the terminal")


def _counted(settings: Settings, mode: str) -> list[Role]:
    """So many of each on this node; of those that the mode is about one, unless told otherwise."""
    servers, trainers = _count(settings, "server_num", 1), _count(settings, "trainer_num", 1)
    coordinators = _count(settings, "coordinator_num", 0)
    stages = [1] if mode == PS_HETER else []
    if stages and settings.source("heter_worker_num"):
        source, word = settings.source("heter_worker_num"), settings["heter_worker_num"]
        parts = [part.strip() for part in word.split(";")]
        if not all(part.isdecimal() and int(part) <= MOST_WORKERS for part in parts):
            raise BadValue(source, word, "a number, or one for each stage", f"{source} 2 or {source} '1;2'")
        stages = [int(part) for part in parts]
    if mode == PS_HETER and not settings.source("trainer_num"):
        flag = _strongest(settings, HETER_FLAGS) or f"--run_mode {mode}"
        raise NoneOfRole(flag, TRAINER, "add --trainer_num N beside it")
    _refuse_a_job_without(settings, servers, trainers, sum(stages), coordinators)
    roles = [Role(SERVER, servers)]
    if settings.source("coordinator_num"):
        roles.append(Role(COORDINATOR, coordinators))
    roles += [Role(HETER, count, stage=stage) for stage, count in enumerate(stages, 2)]
    return [*roles, Role(TRAINER, trainers)]


def _refuse_a_job_without(settings: Settings, servers: int, trainers: int, heter: int, coordinators: int) -> None:
    """On one machine a job needs trainers, unless it is one of servers alone, and they need servers. Of several nodes
    each may hold what it likes.
    """
    alone = settings["nnodes"] == (1, 1) and "," not in str(settings["ips"])
    asked = servers if settings.source("server_num") else 0
    flag = f"{settings.source('trainer_num')} 0"
    if trainers == 0 and alone and heter:
        raise NoneOfRole(flag, TRAINER, "heterogeneous workers need some, as in --trainer_num 1")
    if trainers == 0 and not asked and (alone or not heter + coordinators):
        raise NoneOfRole(flag, TRAINER, "add --server_num 1 for a node of servers alone")
    if servers == 0 and alone:
        flag = f"{settings.source('server_num')} 0"
        raise NoneOfRole(flag, SERVER, "for workers without servers write --nproc_per_node N")


def _count(settings: Settings, dest: str, otherwise: int) -> int:
    value = settings[dest]
    if value is not None and value > MOST_WORKERS:
        raise BadValue(settings.source(dest), str(value), f"a number of 0 to {MOST_WORKERS}", f"--{dest} 4")
    return otherwise if value is None else value


def _device_kinds(settings: Settings, roles: tuple[Role, ...], devices: DeviceSet) -> dict[int, str]:
    """What each stage of heterogeneous workers computes on: as told, else what this machine shows."""
    stages = [role.stage for role in roles if role.name == HETER]
    source, word = settings.source("heter_devices"), str(settings["heter_devices"])
    if not source or not stages:
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


def read_role_addresses(settings: Settings, mode: str) -> RoleSet:
    """Who runs what where. A node runs what is listed at its address, exactly."""
    needed = (SERVER, TRAINER, *((HETER,) if mode == PS_HETER else ()))
    stages = {role: _stages(settings, flag) for role, (_, flag) in BOTH_WAYS.items() if role in (*needed, COORDINATOR)}
    for role in needed:
        if not stages[role]:
            number, flag = BOTH_WAYS[role]
            raise NoAddresses(role, f"--{flag}", settings.source(number))
    taken = {one for lists in stages.values() for stage in lists for one in stage}
    stages[TRAINER] = [_with_ports(stages[TRAINER][0], len(stages[SERVER][0]), taken)]
    listed: dict[str, str] = {}
    for role, one in ((role, one) for role, lists in stages.items() for stage in lists for one in stage):
        if one in listed:
            raise TwiceListed(one, listed[one], role)
        listed[one] = role
    hosts = tuple(dict.fromkeys(split_endpoint(one)[0] for one in listed))
    row, flag = settings.source("start_port"), settings.source("servers")
    if row and strength(row) >= strength(flag):
        raise Contradiction(row, flag, "both say which ports workers get")
    _refuse_ports_of_gloo(settings, listed, hosts)
    if len(hosts) == 1 and settings["nnodes"] != (1, 1):  # cli/nodes.py has the same check for several
        raise Contradiction(settings.spelled("nnodes"), f"{flag} {hosts[0]}", "all workers are listed on one node")
    own = hosts[find_own_rank(settings, flag, hosts, -1)]
    roles = []
    for role, lists in stages.items():
        for stage_number, stage in enumerate(lists, 2 if role == HETER else 0):
            at = [split_endpoint(one)[0] for one in stage]
            mine = tuple(position for position, host in enumerate(at) if host == own)
            lead = hosts.index(at[0])
            roles.append(Role(role, len(mine), endpoints=tuple(stage), own=mine, lead=lead, stage=stage_number))
    return RoleSet(mode, tuple(roles), hosts, flag)


def _stages(settings: Settings, flag: str) -> list[list[str]]:
    """`,` within a stage, `;` between the stages of heterogeneous workers; none of them is empty."""
    source, text = settings.source(flag), str(settings[flag])
    groups = text.split(";") if flag == "heter_workers" else [text]
    stages = [stage for group in groups if (stage := [part.strip() for part in group.split(",") if part.strip()])]
    for one in (one for stage in stages for one in stage):
        address, port = split_endpoint(one)
        fits = port.isdecimal() and 0 < int(port) <= LAST_PORT if port or flag != "trainers" else True
        if not address or not fits:
            raise BadValue(source, one, "addresses with ports", f"{source} 10.0.0.1:6170,10.0.0.2:6170")
    return stages


def _with_ports(trainers: list[str], servers: int, taken: set[str]) -> list[str]:
    """Ports that every node makes up alike, for those without: none that the lists give to somebody else."""
    found: list[str] = []
    used = set(taken)
    for number, one in enumerate(trainers):
        address, port = split_endpoint(one)
        made = (endpoint(address, str(free)) for free in count(FIRST_PORT + servers + number))
        found.append(one if port else next(free for free in made if free not in used))
        used.add(found[-1])
    return found


def _refuse_ports_of_gloo(settings: Settings, listed: dict[str, str], hosts: tuple[str, ...]) -> None:
    """The first server's host has two more ports: gloo's, and behind it the master's, where that is there."""
    port = settings["gloo_port"]
    source = settings.source("gloo_port") or "--gloo_port"
    role, behind = (listed.get(endpoint(hosts[0], str(number))) for number in (port, port + 1))
    expected = f"not listed for a {role}" if role else ""
    if len(hosts) > 1 and not settings.source("master") and (behind or port == LAST_PORT):
        expected = "followed by a free one, where the nodes meet"
    if expected:
        raise BadValue(source, str(port), f"a port that is {expected}", f"{source} 7767")
