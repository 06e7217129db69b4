"""Lists of addresses to roles: --servers, --trainers and their like name every worker of the whole job."""

from __future__ import annotations

from itertools import count

from flota.cli.address import find_own_rank
from flota.cli.build_spec import RoleSet
from flota.cli.convert import LAST_PORT
from flota.cli.roles.paddle_roles import BOTH_WAYS
from flota.cli.settings import Settings, strength
from flota.errors import BadValue, Contradiction, NoAddresses, TwiceListed
from flota.job.roles import COORDINATOR, HETER, PS_HETER, SERVER, TRAINER, Role
from flota.job.roster import endpoint, split_endpoint

FIRST_PORT = 6170  # Paddle's own for servers; trainers that are listed without ports come behind them
NEEDED = (SERVER, TRAINER)


def read_role_addresses(settings: Settings, mode: str) -> RoleSet:
    """Who runs what where. A node runs what is listed at its address, exactly."""
    needed = (*NEEDED, *((HETER,) if mode == PS_HETER else ()))
    stages = {role: _stages(settings, flag) for role, (_, flag) in BOTH_WAYS.items() if role in (*needed, COORDINATOR)}
    for role in needed:
        if not stages[role]:
            number, flag = BOTH_WAYS[role]
            raise NoAddresses(role, f"--{flag}", settings.source(number))
    taken = {one for lists in stages.values() for stage in lists for one in stage}
    stages[TRAINER] = [_with_ports(stages[TRAINER][0], len(stages[SERVER][0]), taken)]
    everything = [(role, one) for role, lists in stages.items() for stage in lists for one in stage]
    _refuse_twins(everything)
    hosts = tuple(dict.fromkeys(split_endpoint(one)[0] for _, one in everything))
    row, flag = settings.source("start_port"), settings.source("servers")
    if row and strength(row) >= strength(flag):
        raise Contradiction(row, flag, "both say which ports workers get")
    _refuse_ports_of_gloo(settings, everything, hosts)
    _check_count(settings, hosts, flag)
    own = hosts[find_own_rank(settings, flag, hosts, -1)]
    roles = [
        _role(role, tuple(stage), number, own, hosts)
        for role, lists in stages.items()
        for number, stage in enumerate(lists, 2 if role == HETER else 0)
    ]
    return RoleSet(mode, tuple(roles), hosts, flag)


def _role(name: str, endpoints: tuple[str, ...], stage: int, own: str, hosts: tuple[str, ...]) -> Role:
    mine = tuple(number for number, one in enumerate(endpoints) if split_endpoint(one)[0] == own)
    lead = hosts.index(split_endpoint(endpoints[0])[0])
    return Role(name, len(mine), endpoints=endpoints, own=mine, lead=lead, stage=stage)


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


def _check_count(settings: Settings, hosts: tuple[str, ...], flag: str) -> None:
    """The same check for one node as cli/nodes.py has for several."""
    if len(hosts) == 1 and settings["nnodes"] != (1, 1):
        raise Contradiction(settings.spelled("nnodes"), f"{flag} {hosts[0]}", "all workers are listed on one node")


def _refuse_twins(everything: list[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for role, one in everything:
        if one in seen:
            raise TwiceListed(one, seen[one], role)
        seen[one] = role


def _refuse_ports_of_gloo(settings: Settings, everything: list[tuple[str, str]], hosts: tuple[str, ...]) -> None:
    """The first server's host has two more ports: gloo's, and behind it the master's, where that is there."""
    port = settings["gloo_port"]
    source = settings.source("gloo_port") or "--gloo_port"
    listed = {one: role for role, one in everything}
    expected = f"not listed for a {role}" if (role := listed.get(endpoint(hosts[0], str(port)))) else ""
    if len(hosts) > 1 and not settings.source("master"):
        behind = listed.get(endpoint(hosts[0], str(port + 1)))
        if behind or port == LAST_PORT:
            expected = "followed by a free one, where the nodes meet"
    if expected:
        raise BadValue(source, str(port), f"a port that is {expected}", f"{source} 7767")
