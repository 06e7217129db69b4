"""Settings to a NodesSpec: how many nodes, and where their master is.

Three families of flags say where: --master, torch's --rdzv-endpoint and --master-addr, and --ips. The stronger source
wins (a flag over a variable); of equal ones --master, and torch's must not contradict it.
"""

from __future__ import annotations

from flota.cli.address import find_own_rank
from flota.cli.convert import convert
from flota.cli.master_address import MasterAddress, read_master, read_place, refuse_secrets
from flota.cli.secrets import notes_on_secrets, read_secrets
from flota.cli.settings import Settings, strength
from flota.errors import BadValue, Contradiction, NodeRankOutOfRange
from flota.job.nodes import NodesSpec, Place
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TORCH_PLACES = ("rdzv_endpoint", "master_addr", "master_port")
TORCH_PORTS = {"static": 29500, "c10d": 29400}
USED_CONF = ("join_timeout", "last_call_timeout", "is_host")


class HostList(NamedTuple):
    """The nodes where the user has listed them: in which flag, and the master's port on the first of them."""

    hosts: tuple[str, ...]
    flag: str
    port: int  # 0: the one before the workers' own


def make_nodes(settings: Settings, environ: Mapping[str, str], listed: HostList | None = None) -> NodesSpec | None:
    """None for a job of one machine. `listed`: the nodes, where lists of roles' addresses have named them."""
    get = settings.__getitem__
    for dest in ("master", "rdzv_endpoint"):
        refuse_secrets(settings.source(dest), str(settings[dest] or ""))
    if get("nnodes") == (1, 1) and "," not in get("ips") and not listed:
        return None
    listed = listed or HostList(read_hosts(settings), settings.source("ips"), 0)
    hosts = listed.hosts
    _check_count(settings, listed)
    if settings["standalone"]:
        raise Contradiction(settings.source("standalone"), _nodes_source(settings), "standalone is one machine")
    least, most = (len(hosts), len(hosts)) if hosts else get("nnodes")
    rank = int(get("rank"))
    if not -1 <= rank < most:
        raise NodeRankOutOfRange(rank, most)
    if hosts:
        rank = find_own_rank(settings, listed.flag, hosts, rank)
    conf = read_conf(settings)
    where = choose_master(settings, listed, rank)
    secrets = read_secrets(settings, environ, etcd=where.etcd)
    return NodesSpec(
        least,
        most,
        etcd=where.etcd,
        places=where.places,
        tls=where.tls or bool(secrets.certificate or secrets.authority),
        secrets=secrets,
        rank=rank,
        hosts=hosts,
        serves=_is_host(settings, conf, where.serves),
        sort_by_address=get("sort_ip"),
        elastic_timeout=_timeout(settings, "elastic_timeout", conf, "last_call_timeout"),
        join_timeout=_timeout(settings, "join_timeout", conf, "join_timeout"),
    )


def notes_on_nodes(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What a user of these settings is told once."""
    ignored = [key for key in read_conf(settings) if key not in USED_CONF]
    unused = f"{', '.join(ignored)} {'have' if len(ignored) > 1 else 'has'} no effect"
    return (*([f"{settings.source('rdzv_conf')}: {unused}"] if ignored else []), *notes_on_secrets(environ))


def _nodes_source(settings: Settings) -> str:
    return settings.source("nnodes") or settings.source("ips") or settings.source("servers")


def read_hosts(settings: Settings) -> tuple[str, ...]:
    """The addresses of --ips, when it is given; their number is the number of nodes."""
    source = settings.source("ips")
    if not source:
        return ()
    word = str(settings["ips"])
    hosts = tuple(part.strip() for part in word.split(","))
    if not all(hosts) or any(host.count(":") == 1 for host in hosts):
        raise BadValue(source, word, "addresses without ports", f"{source} 10.0.0.1,10.0.0.2")
    return hosts


def _check_count(settings: Settings, listed: HostList) -> None:
    count = len(listed.hosts)
    if count and settings.source("nnodes") and settings["nnodes"] != (count, count):
        hosts = f"{listed.flag} {','.join(listed.hosts)}"
        raise Contradiction(settings.spelled("nnodes"), hosts, f"{count} address{'es' * (count > 1)}")


def choose_master(settings: Settings, listed: HostList, rank: int) -> MasterAddress:
    master = strength(settings.source("master"))
    torch = max(strength(settings.source(dest)) for dest in TORCH_PLACES if settings[dest])
    own = strength(listed.flag) if listed.hosts else 0
    if master and master >= max(torch, own):
        return _agreed(settings, _master(settings))
    if torch and torch >= own:
        return _torch(settings, rank)
    if listed.hosts:
        port = listed.port or _port_of_list(settings)
        return MasterAddress(places=(Place(listed.hosts[0], port),), serves=rank == 0)
    if settings.source("rdzv_backend") or _is_torchs_rank(settings):
        return _torch(settings, rank)
    return MasterAddress()


def _master(settings: Settings) -> MasterAddress:
    source = settings.source("master")
    # The old flag and variable of Paddle's name an etcd.
    scheme = "etcd" if "elastic" in source.lower() else "http"
    return read_master(source, str(settings["master"]), scheme=scheme)


def _torch(settings: Settings, rank: int) -> MasterAddress:
    """torch's own rules: c10d is at localhost:29400 unless something else is asked for, static at 127.0.0.1:29500."""
    backend, endpoint = str(settings["rdzv_backend"]), str(settings["rdzv_endpoint"])
    # With a fixed master torch's node 0 serves, whoever has the address.
    serves = rank == 0 if backend == "static" and rank >= 0 else None
    if backend.startswith("etcd"):
        source = str(settings.source("rdzv_endpoint") or settings.source("rdzv_backend"))
        return read_master(source, endpoint or "localhost", scheme="etcd")
    if endpoint.endswith(":0"):
        return MasterAddress(serves=True)  # torch's word for a port that the node chooses
    if endpoint:
        where = read_master(settings.source("rdzv_endpoint"), endpoint, port=TORCH_PORTS[backend])
        return where if where.etcd else where._replace(serves=serves)
    if backend == "c10d" and not settings.source("master_addr"):
        return MasterAddress(places=(Place("localhost", _torch_port(settings)),))
    return MasterAddress(places=(Place(_master_address(settings), _torch_port(settings)),), serves=serves)


def _torch_port(settings: Settings) -> int:
    return settings["master_port"] if settings.source("master_port") else TORCH_PORTS[settings["rdzv_backend"]]


def _master_address(settings: Settings) -> str:
    word = str(settings["master_addr"]).removeprefix("[").removesuffix("]")
    if word.count(":") == 1:
        good = "--master-addr 10.0.0.1 --master-port 29500"
        raise BadValue(settings.source("master_addr"), word, "an address without a port", good)
    return read_place(settings.source("master_addr"), f"[{word}]" if ":" in word else word, 0).host


def _is_torchs_rank(settings: Settings) -> bool:
    """--node-rank and PET_NODE_RANK are written by people who expect torch's default master."""
    return "node-rank" in settings.source("rank").lower().replace("_", "-")


def _agreed(settings: Settings, where: MasterAddress) -> MasterAddress:
    """What --master says, after a look at what torch's flags of the same strength say."""
    master = settings.source("master")
    level = strength(master)
    torchs = (*TORCH_PLACES, "rdzv_backend")
    given = [dest for dest in torchs if settings[dest] and strength(settings.source(dest)) == level]
    if "rdzv_endpoint" in given:
        agrees = {"rdzv_endpoint": _torch(settings, -1).places == where.places}
    else:
        agrees = {
            "master_addr": _master_address(settings) == where.places[0].host,
            "master_port": settings["master_port"] == where.places[0].port,
        }
    agrees["rdzv_backend"] = str(settings["rdzv_backend"]).startswith("etcd") == where.etcd
    for dest in given:
        if not agrees.get(dest, True):
            raise Contradiction(settings.spelled("master"), settings.spelled(dest), "both say where nodes meet")
    return where


def _port_of_list(settings: Settings) -> int:
    """The port before the workers' own, as --start_port or its default says."""
    first = settings["start_port"]
    if first < 2:
        source = settings.source("start_port")
        raise BadValue(source, str(first), "a port above 1 beside --ips", "--start_port 6070")
    return int(first) - 1


def read_conf(settings: Settings) -> dict[str, str]:
    """--rdzv-conf in parts."""
    source, conf = settings.source("rdzv_conf"), {}
    for pair in filter(None, str(settings["rdzv_conf"]).split(",")):
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise BadValue(source, pair, "KEY=VALUE pairs", "--rdzv-conf join_timeout=600,last_call_timeout=30")
        conf[key] = value
    return conf


def _timeout(settings: Settings, dest: str, conf: Mapping[str, str], key: str) -> float:
    """flota's own flag, else torch's key, else the default."""
    if settings.source(dest) or key not in conf:
        return float(settings[dest])
    return float(_converted(settings, "duration", conf, key, "600"))


def _is_host(settings: Settings, conf: Mapping[str, str], otherwise: bool | None) -> bool | None:  # noqa: FBT001
    return bool(_converted(settings, "bool", conf, "is_host", "true")) if "is_host" in conf else otherwise


def _converted(settings: Settings, kind: str, conf: Mapping[str, str], key: str, good: str) -> Any:
    source = settings.source("rdzv_conf")
    try:
        return convert(source, kind, conf[key])
    except BadValue:
        raise BadValue(source, f"{key}={conf[key]}", f"a fitting {key}", f"--rdzv-conf {key}={good}") from None
