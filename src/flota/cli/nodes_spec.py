"""Turns settings into a NodesSpec: the number of nodes, this node's rank, the master's address, the store's secrets.

Three groups of flags set the master's address: --master, torch's --rdzv-endpoint and --master-addr, and --ips. The
source with the higher precedence wins (a flag over a variable). Among equals --master wins, and torch's flags must
agree with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flota import errors
from flota.cli.build_spec import NO_ROLES, RoleSet
from flota.cli.convert import LAST_PORT, convert, is_number
from flota.cli.job_secrets import PASSWORD, TOKEN, is_open_to_others, read_secrets
from flota.cli.settings import OTHER_TOOLS, Settings, precedence
from flota.host import addresses
from flota.job.nodes import NodesSpec, Place, Secrets
from flota.job.roles import COLLECTIVE

TORCH_PLACES = ("rdzv_endpoint", "master_addr", "master_port")
TORCH_PORTS = {"static": 29500, "c10d": 29400}
# The keys of --rdzv-conf that have an effect: the kind of value, and an example.
CONF = {"join_timeout": ("duration", "600"), "last_call_timeout": ("duration", "600"), "is_host": ("bool", "true")}
ETCD_PORT = 2379
SCHEMES = {  # whether it is an etcd server, whether it uses TLS
    "http": (False, False),
    "https": (False, True),
    "etcd": (True, False),
    "etcds": (True, True),
}
NOT_IN_HOSTS = set(" \"'\\/;&=<>[]")


def make_nodes(settings: Settings, environ: Mapping[str, str], listed: RoleSet = NO_ROLES) -> NodesSpec | None:
    """Returns None for a job on one machine. `listed`: the nodes, if the addresses of roles list them."""
    get = settings.__getitem__
    for dest in ("master", "rdzv_endpoint"):
        # Checked first, before anything prints the address: it may contain a password.
        if set(get(dest) or "") & {"@", "?"}:
            raise errors.SecretInAddress(settings.source(dest))
    spares = read_spares(settings)
    if get("nnodes") == (1, 1) and "," not in get("ips") and len(listed.hosts) < 2 and not spares:
        _require_nodes(settings, listed)
        return None
    if len(listed.hosts) < 2:
        listed = RoleSet(COLLECTIVE, hosts=read_hosts(settings), flag=settings.source("ips"))
    hosts, (least, most), rank = listed.hosts, _count_nodes(settings, listed), get("rank")
    if not -1 <= rank < most + spares:
        raise errors.NodeRankOutOfRange(rank, most + spares)
    rank = rank if rank < most else -1  # a spare gets the number of the node that it replaces
    if hosts:
        rank = find_own_rank(settings, listed.flag, hosts, rank)
    where = choose_master(settings, listed, rank)
    hints = settings.hints
    if hints and hints.master and get("master") == hints.master:
        where = where._replace(spare_ports=hints.spare_ports, serves=None if hints.may_serve else False)
    secrets = read_secrets(settings, environ, etcd=where.etcd and not where.members)
    where = where._replace(masters=get("masters"))
    if where.members or where.masters:
        check_members(settings, where, secrets, most + spares)
    return where._replace(
        least=least,
        most=most,
        spares=spares,
        evict=get("evict_stragglers") or 0.0,
        tls=where.tls or bool(secrets.certificate or secrets.authority),
        secrets=secrets,
        rank=rank,
        hosts=hosts,
        serves=_from_conf(settings, "is_host", where.serves),
        sort_by_address=get("sort_ip"),
        elastic_timeout=_from_conf(settings, "last_call_timeout", get("elastic_timeout"), "elastic_timeout"),
        join_timeout=_from_conf(settings, "join_timeout", get("join_timeout"), "join_timeout"),
        strict=get("strict"),
    )


def _count_nodes(settings: Settings, listed: RoleSet) -> tuple[int, int]:
    """The least and the most, without spares."""
    count: int = len(listed.hosts)
    wanted: tuple[int, int] = settings["nnodes"]
    if count and settings.source("nnodes") and wanted != (count, count):
        given = f"{listed.flag} {','.join(listed.hosts)}"
        raise errors.Contradiction(settings.spelled("nnodes"), given, f"{count} address{'es' * (count > 1)}")
    if settings["standalone"]:
        nodes = next(filter(None, map(settings.source, ("nnodes", "ips", "servers", "spares"))), "")
        raise errors.Contradiction(settings.source("standalone"), nodes, "a standalone job runs on one machine")
    if settings["spares"] and count:
        raise errors.Contradiction(settings.spelled("spares"), listed.flag, "the list has a place for each node")
    if settings["spares"] and not settings.source("nnodes"):
        raise errors.OnlyWith(settings.source("spares"), "--nnodes")
    return (count, count) if count else wanted


def _require_nodes(settings: Settings, listed: RoleSet) -> None:
    """Reject a master for one node, unless the user, a variable or a platform said that there is one: otherwise this
    node would train alone while the others wait. Another launcher's variable may be for another job."""
    master = settings.source("master")
    says_one = settings.source("nnodes") or settings.source("ips") or settings["standalone"] or listed.hosts
    if settings["master"] and precedence(master) != OTHER_TOOLS and not says_one:
        raise errors.MasterWithoutNodes(master)


def read_spares(settings: Settings) -> int:
    if settings["evict_stragglers"] and not settings["spares"]:
        raise errors.OnlyWith(settings.source("evict_stragglers"), "--spares")
    spares: int = settings["spares"]
    return spares


def node_notes(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Notes printed at the start: keys without effect, and files of secrets that everyone can read."""
    ignored = [key for key in read_conf(settings) if key not in CONF]
    unused = f"{', '.join(ignored)} {'have' if len(ignored) > 1 else 'has'} no effect"
    files = [
        f"{variable} can be read by everyone on this machine: run `chmod 600 {environ[variable]}`"
        for variable in (f"{TOKEN}_FILE", f"{PASSWORD}_FILE")
        if environ.get(variable) and is_open_to_others(environ[variable])
    ]
    return (*([f"{settings.source('rdzv_conf')}: {unused}"] if ignored else []), *files)


def member_notes(nodes: NodesSpec) -> tuple[str, ...]:
    """A note if the job could go on with fewer nodes than its etcd."""
    count = nodes.masters or len(nodes.places)
    majority = count // 2 + 1
    if not (nodes.members or nodes.masters) or nodes.least >= majority:
        return ()
    limit = f"the job ends when fewer than {majority} of the {count} nodes that run it are left"
    return (f"--nnodes {nodes.least}:{nodes.most}: etcd needs most of its members, so {limit}",)


def read_hosts(settings: Settings) -> tuple[str, ...]:
    """The addresses of --ips, one per node; empty if it is not given."""
    source = settings.source("ips")
    if not source:
        return ()
    word = str(settings["ips"])
    hosts = tuple(part.strip() for part in word.split(","))
    if not all(hosts) or any(host.count(":") == 1 for host in hosts):
        raise errors.BadValue(source, word, "addresses without ports", f"{source} 10.0.0.1,10.0.0.2")
    return hosts


def choose_master(settings: Settings, listed: RoleSet, rank: int) -> NodesSpec:
    """A NodesSpec with only the master's address set."""
    source = settings.source("master")
    master = precedence(source)
    torch = max(precedence(settings.source(dest)) for dest in TORCH_PLACES if settings[dest])
    own = precedence(listed.flag) if listed.hosts else 0
    if master and master >= max(torch, own):
        # Paddle's --elastic_server and PADDLE_ELASTIC_SERVER name an etcd server.
        scheme = "etcd" if "elastic" in source.lower() else "http"
        return _check_against_torch_flags(settings, read_master(source, settings["master"], scheme=scheme))
    if torch and torch >= own:
        return _torch_master(settings, rank)
    if listed.hosts:
        first, source = settings["start_port"], settings.source("start_port")
        if not listed.gloo_port and first < 2:
            raise errors.BadValue(source, str(first), "a port above 1 with --ips", "--start_port 6070")
        # The port after gloo's, or the one before the workers' first.
        port = listed.gloo_port + 1 if listed.gloo_port else first - 1
        return NodesSpec(places=(Place(listed.hosts[0], port),), serves=rank == 0)
    # Users of --node-rank and PET_NODE_RANK expect torch's default master.
    if settings.source("rdzv_backend") or "node-rank" in settings.source("rank").lower().replace("_", "-"):
        return _torch_master(settings, rank)
    return NodesSpec()


def _torch_master(settings: Settings, rank: int) -> NodesSpec:
    """Follows torch's rules. The defaults are localhost:29400 for c10d and 127.0.0.1:29500 for static."""
    backend, endpoint = settings["rdzv_backend"], settings["rdzv_endpoint"]
    # With the static backend torch's node 0 serves, whatever the address.
    serves = rank == 0 if backend == "static" and rank >= 0 else None
    if backend.startswith("etcd"):
        source = settings.source("rdzv_endpoint") or settings.source("rdzv_backend")
        return read_master(source, endpoint or "localhost", scheme="etcd")
    if endpoint.endswith(":0"):
        return NodesSpec(serves=True)  # in torch, port 0 means that the node chooses one
    if endpoint:
        where = read_master(settings.source("rdzv_endpoint"), endpoint, port=TORCH_PORTS[backend])
        return where if where.etcd else where._replace(serves=serves)
    host = "localhost" if backend == "c10d" and not settings.source("master_addr") else _master_address(settings)
    port = settings["master_port"] if settings.source("master_port") else TORCH_PORTS[backend]
    return NodesSpec(places=(Place(host, port),), serves=serves)


def _master_address(settings: Settings) -> str:
    word = str(settings["master_addr"]).removeprefix("[").removesuffix("]")
    if word.count(":") == 1:
        good = "--master-addr 10.0.0.1 --master-port 29500"
        raise errors.BadValue(settings.source("master_addr"), word, "an address without a port", good)
    return read_place(settings.source("master_addr"), f"[{word}]" if ":" in word else word, 0).host


def _check_against_torch_flags(settings: Settings, where: NodesSpec) -> NodesSpec:
    """Returns `where`, the value of --master. Raises if torch's flags of the same precedence contradict it."""
    master = settings.source("master")
    level = precedence(master)
    torch_flags = (*TORCH_PLACES, "rdzv_backend")
    given = [dest for dest in torch_flags if settings[dest] and precedence(settings.source(dest)) == level]
    if "rdzv_endpoint" in given:
        agrees = {"rdzv_endpoint": _torch_master(settings, -1).places == where.places}
    else:
        agrees = {
            "master_addr": _master_address(settings) == where.places[0].host,
            "master_port": settings["master_port"] == where.places[0].port,
        }
    agrees["rdzv_backend"] = str(settings["rdzv_backend"]).startswith("etcd") == where.etcd
    for dest in given:
        if not agrees.get(dest, True):
            raise errors.Contradiction(settings.spelled("master"), settings.spelled(dest), "both set the master")
    return where


def read_master(flag: str, word: str, *, scheme: str = "http", port: int | None = None) -> NodesSpec:
    """Parse `[SCHEME://]HOST[:PORT]`, or a list: of the members of an etcd, or of the hosts that run one for this job.

    `scheme` and `port` are defaults. etcd has its own default port; without `port`, other addresses must include one.
    """
    named, separator, rest = word.partition("://")
    if separator and named.lower() not in SCHEMES:
        raise errors.BadValue(flag, word, f"one of {', '.join(f'{known}://' for known in SCHEMES)}", example(flag))
    etcd, tls = SCHEMES[named.lower() if separator else scheme]
    etcd = etcd or SCHEMES[scheme][0]  # with --rdzv-backend etcd, http:// is an etcd server as well
    parts = (rest if separator else word).rstrip("/").split(",")
    places = tuple(read_place(flag, part.strip(), ETCD_PORT if etcd else port) for part in parts)
    members = len(parts) > 1 and not etcd
    if members and len(parts) == 2:
        raise errors.TwoMembers(flag, word, parts[0].strip())
    ports = [Place(place.host, number) for place in places for number in (place.port, place.port + 1)]
    twice = next((place for place in ports if ports.count(place) > 1), None)
    if members and any(place.port == LAST_PORT for place in places):
        raise errors.BadValue(flag, word, "ports below 65535, because each member uses the next one", example(flag))
    if members and twice:
        raise errors.MembersOverlap(flag, word, f"{twice.host}:{twice.port}")
    return NodesSpec(etcd=etcd or members, members=members, tls=tls, places=places)


def check_members(settings: Settings, where: NodesSpec, secrets: Secrets, most: int) -> None:
    """Raise an error if the nodes of this job cannot run an etcd of these members."""
    masters, flag = where.masters, settings.source("masters")
    if 0 < masters < 3:
        raise errors.BadMasters(flag, masters)
    if masters and (where.etcd or not where.places):
        raise errors.MastersWithoutMaster(flag, settings["master"] or "missing")
    if masters and where.places[0].port > LAST_PORT - 2:
        source, port = settings.source("master"), str(where.places[0].port)
        raise errors.BadValue(source, port, "a port with two more after it, for etcd", "--master gpu01:8090")
    if max(masters, len(where.places)) > most:
        source = flag if masters else settings.source("master") or "--master"
        raise errors.FewerNodesThanMembers(source, masters or len(where.places), most)
    files = {"--tls-ca": secrets.authority, "--tls-cert": secrets.certificate}
    given = where.tls or any(files.values())
    missing = next((flag for flag, path in files.items() if not path), "")
    if given and missing:
        raise errors.MemberWithoutCertificate(missing)


def read_place(flag: str, word: str, port: int | None) -> Place:
    """Parse HOST:PORT. An IPv6 address must be in brackets."""
    host, colon, number = word.partition(":")
    if word.startswith("["):
        host, bracket, tail = word[1:].partition("]")
        if ":" not in host or not bracket or (tail and not tail.startswith(":")):
            raise errors.BadValue(flag, word, "HOST:PORT", "--master [fd00::1]:8090")
        colon, number = tail[:1], tail[1:]
    elif word.count(":") > 1:
        raise errors.BadValue(flag, word, "an IPv6 address in brackets", "--master [fd00::1]:8090")
    if not host.isprintable() or not host or set(host) & NOT_IN_HOSTS:
        raise errors.BadValue(flag, word, "HOST:PORT", example(flag))
    if not colon:
        if port is None:
            raise errors.MasterWithoutPort(flag, word)
        return Place(host, port)
    if not is_number(number) or not 1 <= int(number) <= LAST_PORT:
        raise errors.BadValue(flag, word, "a port from 1 to 65535 after the host", example(flag))
    return Place(host, int(number))


def example(flag: str) -> str:
    """An example for an error message. For a variable or a config key, it uses the flag."""
    return f"{flag if flag.startswith('-') else '--master'} 10.0.0.1:8090"


def read_conf(settings: Settings) -> dict[str, str]:
    """The keys and values of --rdzv-conf."""
    source, conf = settings.source("rdzv_conf"), {}
    for pair in filter(None, str(settings["rdzv_conf"]).split(",")):
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise errors.BadValue(source, pair, "KEY=VALUE pairs", "--rdzv-conf join_timeout=600,last_call_timeout=30")
        conf[key] = value
    return conf


def _from_conf(settings: Settings, key: str, default: Any, dest: str = "") -> Any:
    """The value of a key of --rdzv-conf, or `default` if it is missing or flota's own flag `dest` is given."""
    conf, source = read_conf(settings), settings.source("rdzv_conf")
    if key not in conf or settings.source(dest):
        return default
    kind, good = CONF[key]
    try:
        return convert(source, kind, conf[key])
    except errors.BadValue:
        raise errors.BadValue(source, f"{key}={conf[key]}", f"a valid {key}", f"--rdzv-conf {key}={good}") from None


def choose_address(settings: Settings, nodes: NodesSpec) -> str:
    """In order: the address that was given, this node's entry in a list of nodes, the address that faces the master."""
    wanted = wanted_address(settings)
    if wanted:
        return wanted
    if nodes.hosts:
        host = nodes.hosts[nodes.rank]
        return addresses.resolve_own(host) or host
    host = nodes.places[0].host if nodes.places else ""
    if nodes.members:
        listed = filter(None, (addresses.resolve_own(place.host) for place in nodes.places))
        return next(listed, None) or addresses.reachable_address(host)
    if nodes.etcd or not host:
        return addresses.reachable_address(host)  # etcd may run on this machine: its address does not matter
    return addresses.resolve_own(host) or addresses.reachable_address(host)


def choose_interface(settings: Settings, address: str) -> str:
    """The interface that workers must use: the one given, or the address's own if the hostname resolves to another."""
    interface = str(settings["network_interface"] or "")
    if interface and address == addresses.address_of(interface):
        return interface
    address = addresses.resolve_own(address) or address
    return addresses.interface_of(address) or "" if addresses.hostname_misleads(address) else ""


def wanted_address(settings: Settings) -> str:
    """--host or --network-interface, whichever has the higher precedence: every pod sets POD_IP."""
    host, interface = str(settings["host"] or ""), str(settings["network_interface"] or "")
    if not interface:
        return host
    source = settings.source("network_interface")
    address = addresses.address_of(interface)
    if address is None:
        known = dict.fromkeys(name for name, _ in addresses.own_addresses())
        raise errors.UnknownInterface(source, interface, list(known))
    difference = precedence(settings.source("host")) - precedence(source) if host else -1
    if difference == 0 and host != address:
        raise errors.Contradiction(settings.spelled("host"), f"{source} {interface}", f"the interface has {address}")
    return host if difference > 0 else address


def find_own_rank(settings: Settings, source: str, hosts: tuple[str, ...], rank: int) -> int:
    """This machine's position in a list of nodes. Raises if a given rank contradicts it."""
    wanted = wanted_address(settings)
    resolved = [addresses.resolve_own(host) for host in hosts]
    mine = [n for n, host in enumerate(hosts) if (wanted in (host, resolved[n]) if wanted else resolved[n])]
    if not mine:
        here = [address for _, address in addresses.own_addresses() if not addresses.is_loopback(address)]
        raise errors.NotAmongNodes(source, hosts, [wanted] if wanted else here)
    if rank >= 0 and rank not in mine:
        listed = f"{source} {','.join(hosts)}"
        raise errors.Contradiction(settings.spelled("rank"), listed, f"this machine is rank {mine[0]} in the list")
    if rank < 0 and len(mine) > 1:
        raise errors.SeveralAmongNodes(source, tuple(hosts[number] for number in mine))
    return rank if rank >= 0 else mine[0]
