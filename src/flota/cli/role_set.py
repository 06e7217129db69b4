"""Turns settings into roles: the job's mode, and how many workers of each role this node starts.

Counts (--server_num …) apply to this node; lists of addresses (--servers …) apply to the whole job. Custom roles are
defined by the tables `[roles.NAME]` of the config file; --roles sets their counts.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from flota import errors
from flota.cli.build_spec import RoleSet, resolve_command
from flota.cli.convert import LAST_PORT, MOST_WORKERS, is_number
from flota.cli.nodes_spec import find_own_rank
from flota.cli.parse import nearest
from flota.cli.settings import Request, Settings, format_value, precedence, to_words
from flota.devices import choose_devices
from flota.job.roles import (
    COLLECTIVE,
    COORDINATOR,
    HETER,
    MIXED,
    ON_FAILURE,
    PS,
    PS_HETER,
    RPC,
    SERVER,
    TRAINER,
    Role,
    in_start_order,
    log_stem,
)
from flota.job.roster import endpoint, split_endpoint
from flota.job.spec import Command, DeviceSet

PS_FLAGS = ("server_num", "trainer_num", "servers", "trainers", "coordinators", "coordinator_num")
FIRST_PORT = 6170  # Paddle's first port for servers; trainers listed without ports get the ports after them
HETER_FLAGS = ("heter_workers", "heter_worker_num", "heter_devices")
# For each role of a parameter-server job: the flag that counts its workers, and the one that lists them.
COUNT_AND_LIST_FLAGS = {
    SERVER: ("server_num", "servers"),
    COORDINATOR: ("coordinator_num", "coordinators"),
    HETER: ("heter_worker_num", "heter_workers"),
    TRAINER: ("trainer_num", "trainers"),
}
KEYS: dict[str, tuple[type, str]] = {
    "count": (int, "a number"),
    "script": (str, "a path in quotes"),
    "args": (list, "a list of words"),
    "devices": (str, "ids in quotes, all or none"),
    "env": (dict, "a table of variables"),
    "serves": (bool, "true or false"),
    "on_failure": (str, f"one of {', '.join(ON_FAILURE)}"),
}
SERVING_ROLES = (SERVER, COORDINATOR, "ps", "scheduler")  # the default of `serves` in a role's table
SCALARS = (str, int, float)


def choose_mode(settings: Settings) -> str:
    """--run_mode, or the mode that other flags imply. The higher precedence wins; equal ones must not contradict."""
    heter, servers = _strongest(settings, HETER_FLAGS), _strongest(settings, PS_FLAGS)
    own = settings.source("roles") or (f"`roles` in {settings.tables_from}" if settings.tables else "")
    if own and (heter or servers):
        raise errors.Contradiction(own, heter or servers, "both define the job's roles")
    implied = PS_HETER if heter else PS if servers else MIXED
    asked, source = str(settings["run_mode"]), settings.source("run_mode")
    fitting = {heter: (PS_HETER,), servers: (PS_HETER, PS), own: ()}
    against = max((flag for flag, modes in fitting.items() if flag and asked not in modes), key=precedence, default="")
    if not against:
        return asked
    if precedence(source) == precedence(against):
        mode = "jobs with custom roles" if own else implied
        raise errors.Contradiction(f"{source} {asked}", against, f"{against} is for {mode}")
    return asked if precedence(source) > precedence(against) else implied


def _strongest(settings: Settings, dests: tuple[str, ...]) -> str:
    """The source with the highest precedence among these flags; empty if none is given."""
    return max(filter(None, map(settings.source, dests)), key=precedence, default="")


def make_roles(request: Request, found: DeviceSet, devices: DeviceSet) -> RoleSet:
    mode = choose_mode(request.settings)
    if mode == MIXED:
        return make_custom_roles(request, found, devices)
    return RoleSet(mode) if mode in (COLLECTIVE, RPC) else make_paddle_roles(request.settings, mode, found, devices)


def make_paddle_roles(settings: Settings, mode: str, found: DeviceSet, devices: DeviceSet) -> RoleSet:
    """Roles of a parameter-server job, with or without heterogeneous workers."""
    reject_worker_counts(settings, f"--run_mode {mode}", "--trainer_num sets the number of trainers")
    # Workers are either listed or counted, whichever has the higher precedence, for all roles alike.
    numbers, lists = (_strongest(settings, dests) for dests in zip(*COUNT_AND_LIST_FLAGS.values(), strict=True))
    listed = bool(lists) and precedence(lists) >= precedence(numbers)
    role_set = (
        read_role_addresses(settings, mode) if listed else RoleSet(mode, tuple(_roles_from_counts(settings, mode)))
    )
    _check_counts(settings, role_set)
    none = choose_devices(found, "cpu")
    kinds = _device_kinds(settings, role_set.roles, devices)
    roles = [_with_devices(role, kinds.get(role.stage, ""), devices, none) for role in role_set.roles]
    port = settings["gloo_port"] if settings.source("gloo_port") or listed else None
    return role_set._replace(roles=in_start_order(roles), gloo_port=port)


def _check_counts(settings: Settings, role_set: RoleSet) -> None:
    """Reject a count that contradicts a list of the same precedence. As in Paddle, it may count all addresses that are
    listed; it may also count those of this node. Numbers of stages are separated by `;`."""
    for name, (count_flag, list_flag) in COUNT_AND_LIST_FLAGS.items():
        source = settings.source(count_flag)
        if not source or precedence(source) != precedence(settings.source(list_flag)):
            continue
        in_job = ";".join(str(len(stage)) for stage in _read_stages(settings, list_flag))
        here = ";".join(str(role.workers) for role in role_set.roles if role.endpoints and role.name == name)
        if str(settings[count_flag]).replace(" ", "") not in (in_job, here):
            why = f"{in_job or 0} address{'es' * (in_job != '1')} listed"
            raise errors.Contradiction(settings.spelled(count_flag), settings.spelled(list_flag), why)


def reject_worker_counts(settings: Settings, roles: str, why: str) -> None:
    """Reject --nproc_per_node and --interactive in a job with roles. Other sources of --nproc_per_node are ignored:
    they may be for other jobs."""
    workers = settings.source("nproc_per_node")
    if workers.startswith("-"):
        raise errors.Contradiction(workers, roles, why)
    if settings["interactive"]:
        raise errors.Contradiction("--interactive", roles, "only one worker can use the terminal")


def _roles_from_counts(settings: Settings, mode: str) -> list[Role]:
    """Roles of this node by their counts. The default is one server and one trainer."""
    servers, trainers = _count(settings, "server_num", 1), _count(settings, "trainer_num", 1)
    coordinators = _count(settings, "coordinator_num", 0)
    stages = [1] if mode == PS_HETER else []
    if stages and settings.source("heter_worker_num"):
        source, word = settings.source("heter_worker_num"), settings["heter_worker_num"]
        parts = [part.strip() for part in word.split(";")]
        if not all(is_number(part) and int(part) <= MOST_WORKERS for part in parts):
            raise errors.BadValue(source, word, "a number, or one for each stage", f"{source} 2 or {source} '1;2'")
        stages = [int(part) for part in parts]
    if mode == PS_HETER and not settings.source("trainer_num"):
        flag = _strongest(settings, HETER_FLAGS) or f"--run_mode {mode}"
        raise errors.NoneOfRole(flag, TRAINER, "add --trainer_num N")
    _check_required_roles(settings, servers, trainers, sum(stages), coordinators)
    roles = [Role(SERVER, servers)]
    if settings.source("coordinator_num"):
        roles.append(Role(COORDINATOR, coordinators))
    roles += [Role(HETER, count, stage=stage) for stage, count in enumerate(stages, 2)]
    return [*roles, Role(TRAINER, trainers)]


def _check_required_roles(settings: Settings, servers: int, trainers: int, heter: int, coordinators: int) -> None:
    """A job on one machine needs servers, and trainers unless --server_num asks for servers only. In a job on several
    nodes, other nodes may have them.
    """
    alone = settings["nnodes"] == (1, 1) and "," not in str(settings["ips"])
    asked = servers if settings.source("server_num") else 0
    flag = f"{settings.source('trainer_num')} 0"
    if trainers == 0 and alone and heter:
        raise errors.NoneOfRole(flag, TRAINER, "heterogeneous workers need trainers, e.g. --trainer_num 1")
    if trainers == 0 and not asked and (alone or not heter + coordinators):
        raise errors.NoneOfRole(flag, TRAINER, "add --server_num 1 for a node with servers only")
    if servers == 0 and alone:
        flag = f"{settings.source('server_num')} 0"
        raise errors.NoneOfRole(flag, SERVER, "for workers without servers use --nproc_per_node N")


def _count(settings: Settings, dest: str, default: int) -> int:
    value = settings[dest]
    if value is not None and value > MOST_WORKERS:
        raise errors.BadValue(settings.source(dest), str(value), f"a number from 0 to {MOST_WORKERS}", f"--{dest} 4")
    return default if value is None else value


def _device_kinds(settings: Settings, roles: tuple[Role, ...], devices: DeviceSet) -> dict[int, str]:
    """The kind of device of each stage of heterogeneous workers: as given, or what this machine has."""
    stages = [role.stage for role in roles if role.name == HETER]
    source, word = settings.source("heter_devices"), str(settings["heter_devices"])
    if not source or not stages:
        return dict.fromkeys(stages, devices.kind)
    kinds = [part.strip() for part in word.split(";")]
    if len(kinds) == 1:
        kinds *= len(stages)
    if len(kinds) != len(stages) or not all(kinds):
        raise errors.BadValue(source, word, f"one kind, or one for each of {len(stages)} stages", f"{source} 'gpu;cpu'")
    here = {kind for kind, role in zip(kinds, (one for one in roles if one.name == HETER), strict=True) if role.workers}
    for kind in here - {"cpu", devices.kind}:
        raise errors.NoDevices(f"{source} {kind}")
    return dict(zip(stages, kinds, strict=True))


def _with_devices(role: Role, kind: str, devices: DeviceSet, none: DeviceSet) -> Role:
    """Trainers and heterogeneous workers get a device each, if there are any. Servers and coordinators get none."""
    computes = role.name == TRAINER or (role.name == HETER and kind != "cpu")
    return role._replace(
        serves=role.name != TRAINER,
        devices=devices if computes else none,
        private=computes,
        device_kind=kind if role.name == HETER else "",
    )


def read_role_addresses(settings: Settings, mode: str) -> RoleSet:
    """Roles from lists of addresses. A node runs the workers that are listed at its address."""
    needed = (SERVER, TRAINER, *((HETER,) if mode == PS_HETER else ()))
    stages = {
        role: _read_stages(settings, flag)
        for role, (_, flag) in COUNT_AND_LIST_FLAGS.items()
        if role in (*needed, COORDINATOR)
    }
    for role in needed:
        if not stages[role]:
            number, flag = COUNT_AND_LIST_FLAGS[role]
            raise errors.NoAddresses(role, f"--{flag}", settings.source(number))
    taken = {one for lists in stages.values() for stage in lists for one in stage}
    stages[TRAINER] = [_fill_in_ports(stages[TRAINER][0], len(stages[SERVER][0]), taken)]
    listed: dict[str, str] = {}
    for role, one in ((role, one) for role, lists in stages.items() for stage in lists for one in stage):
        if one in listed:
            raise errors.DuplicateEndpoint(one, listed[one], role)
        listed[one] = role
    hosts = tuple(dict.fromkeys(split_endpoint(one)[0] for one in listed))
    row, flag = settings.source("start_port"), settings.source("servers")
    if row and precedence(row) >= precedence(flag):
        raise errors.Contradiction(row, flag, "both set the workers' ports")
    _check_gloo_port(settings, listed, hosts)
    if len(hosts) == 1 and settings["nnodes"] != (1, 1):  # nodes_spec.py checks it for several nodes
        raise errors.Contradiction(
            settings.spelled("nnodes"), f"{flag} {hosts[0]}", "all workers are listed on one node"
        )
    own = hosts[find_own_rank(settings, flag, hosts, -1)]
    roles = []
    for role, lists in stages.items():
        for stage_number, stage in enumerate(lists, 2 if role == HETER else 0):
            at = [split_endpoint(one)[0] for one in stage]
            mine = tuple(position for position, host in enumerate(at) if host == own)
            lead = hosts.index(at[0])
            roles.append(Role(role, len(mine), endpoints=tuple(stage), own=mine, lead=lead, stage=stage_number))
    return RoleSet(mode, tuple(roles), hosts, flag)


def _read_stages(settings: Settings, flag: str) -> list[list[str]]:
    """Addresses of a role by stage. `;` separates the stages of heterogeneous workers. Empty stages are dropped."""
    source, text = settings.source(flag), str(settings[flag])
    groups = text.split(";") if flag == "heter_workers" else [text]
    stages = [stage for group in groups if (stage := [part.strip() for part in group.split(",") if part.strip()])]
    for one in (one for stage in stages for one in stage):
        address, port = split_endpoint(one)
        fits = is_number(port) and 0 < int(port) <= LAST_PORT if port or flag != "trainers" else True
        if not address or not fits:
            raise errors.BadValue(source, one, "addresses with ports", f"{source} 10.0.0.1:6170,10.0.0.2:6170")
    return stages


def _fill_in_ports(trainers: list[str], servers: int, taken: set[str]) -> list[str]:
    """Choose ports for trainers listed without one. All nodes choose the same ports, and none that is listed."""
    found: list[str] = []
    used = set(taken)
    for number, one in enumerate(trainers):
        address, port = split_endpoint(one)
        made = (endpoint(address, str(free)) for free in count(FIRST_PORT + servers + number))
        found.append(one if port else next(free for free in made if free not in used))
        used.add(found[-1])
    return found


def _check_gloo_port(settings: Settings, listed: dict[str, str], hosts: tuple[str, ...]) -> None:
    """The first server's host also needs gloo's port and, unless --master is given, the next one for the master."""
    port = settings["gloo_port"]
    source = settings.source("gloo_port") or "--gloo_port"
    role, next_role = (listed.get(endpoint(hosts[0], str(number))) for number in (port, port + 1))
    expected = f"not listed for a {role}" if role else ""
    if len(hosts) > 1 and not settings.source("master") and (next_role or port == LAST_PORT):
        expected = "followed by a free port for the master"
    if expected:
        raise errors.BadValue(source, str(port), f"a port that is {expected}", f"{source} 7767")


def make_custom_roles(request: Request, found: DeviceSet, devices: DeviceSet) -> RoleSet:
    settings, script = request.settings, request.line.script
    source = settings.source("roles") or f"`roles` in {settings.tables_from}"
    reject_worker_counts(settings, source, "roles set their own counts")
    counts = dict(settings["roles"])
    if len(counts) < len(settings["roles"]) or max(counts.values(), default=0) > MOST_WORKERS:
        expected = f"each role once, with a count from 0 to {MOST_WORKERS}"
        raise errors.BadValue(source, format_value("roles", settings["roles"]), expected, f"{source} trainer=4,data=1")
    names = list(dict.fromkeys((*settings.tables, *counts)))
    tables = {name: _validate(name, settings.tables.get(name, {}), settings.tables_from) for name in names}
    _check_collisions(names)
    if script and all("script" in table for table in tables.values()):
        raise errors.UnusedScript(script, settings.tables_from)
    serves = {name: table.get("serves", name in SERVING_ROLES) for name, table in tables.items()}
    main = next((name for name in names if not serves[name]), names[0])
    by_word = {"all": devices, "none": choose_devices(found, "cpu")}
    roles = []
    for name, table in tables.items():
        # By default the main role gets all devices, the others none.
        wanted = table.get("devices", "all" if name == main else "none")
        role = Role(
            name,
            counts.get(name, table.get("count", 1)),
            serves=serves[name],
            on_failure=table.get("on_failure", ON_FAILURE[0]),
            command=_command(table, request),
            env=tuple((key, to_words(value, one_each=False)[0]) for key, value in table.get("env", {}).items()),
            devices=by_word.get(wanted) or choose_devices(found, wanted),
        )
        roles.append(role)
    return RoleSet(MIXED, in_start_order(roles))


def _command(table: Any, request: Request) -> Command | None:
    """A role's own command: its script or the job's, with its own arguments. None: the job's command."""
    script, args = table.get("script"), table.get("args")
    if script is None and args is None:
        return None
    words = tuple(to_words(word, one_each=False)[0] for word in args or ())
    line = request.line._replace(script=script or request.line.script, args=words)
    return resolve_command(request._replace(line=line))


def _validate(name: str, table: object, file: str) -> dict[str, Any]:
    """Check the keys and values of a role's table."""
    where = f"roles.{name}"
    if not isinstance(table, dict):
        raise errors.BadConfigFile(file, f"`{where}` is not a table")
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise errors.BadValue("roles", name, "a name of letters and digits", "[roles.trainer]")
    for key, value in table.items():
        if key not in KEYS:
            raise errors.UnknownKey(file, f"{where}.{key}", nearest(key, list(KEYS), 0.0))
        kind, fits = KEYS[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise errors.BadConfigFile(file, f"`{where}.{key}` is `{value}`, not {fits}")
    if table.get("on_failure", ON_FAILURE[0]) not in ON_FAILURE:
        raise errors.BadConfigFile(
            file, f"`{where}.on_failure` is `{table['on_failure']}`, not {KEYS['on_failure'][1]}"
        )
    if not 0 <= int(table.get("count", 1)) <= MOST_WORKERS:
        raise errors.BadValue(f"{where}.count", str(table["count"]), f"a number from 0 to {MOST_WORKERS}", "count = 2")
    words = [(f"{where}.args", word) for word in table.get("args", ())]
    words += [(f"{where}.env.{variable}", value) for variable, value in table.get("env", {}).items()]
    for place, word in words:
        if not isinstance(word, SCALARS) or "\0" in str(word):
            raise errors.BadConfigFile(file, f"`{place}` contains `{word!r}`, which is not a string or a number")
    for variable in table.get("env", {}):
        if not variable or "=" in variable or "\0" in variable:
            raise errors.BadConfigFile(file, f"`{where}.env` contains `{variable!r}`, which is not a variable name")
    return table


def _check_collisions(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        variable = f"FLOTA_ENDPOINTS_{name.replace('-', '_').upper()}"
        for thing, words in (
            (log_stem(name), f"write to the same log {log_stem(name)}.N"),
            (variable, f"use the same variable {variable}"),
        ):
            other = seen.setdefault(thing, name)
            if other != name:
                raise errors.RolesCollide(other, name, words)
