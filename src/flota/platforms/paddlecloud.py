"""PaddleCloud: sets in each pod the addresses of all pods, the pod's own address, its rank and its number of ports.

For parameter servers and their trainers it also sets TRAINING_ROLE and the addresses of the servers. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from flota.errors import BadPlatformValue
from flota.job.roster import endpoint, split_endpoint
from flota.platforms import Hints
from flota.platforms.reading import Variables

LISTS = ("DISTRIBUTED_TRAINER_ENDPOINTS", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINERS")  # by preference
ROLES = {"PSERVER": "server", "TRAINER": "trainer", "HETER_TRAINER": "heter", "COORDINATOR": "coordinator"}
MASTER_PORT = 6768  # Paddle's default if the platform names no port
LAST_PORT = 65535


def detect(environ: Mapping[str, str]) -> Hints | None:
    """Return the job's pods and the rank of this one, or its role."""
    # Pods of a collective job may also have TRAINING_ROLE, but no servers.
    role = environ.get("TRAINING_ROLE", "") if environ.get("PADDLE_PSERVERS_IP_PORT_LIST") else ""
    if role in ROLES:
        return Hints("TRAINING_ROLE", role=role, own_role=ROLES[role], framework="paddle", not_settings=("POD_IP",))
    if role:
        problem = BadPlatformValue("PaddleCloud", "TRAINING_ROLE", role, f"one of {', '.join(ROLES)}")
        return Hints(role=role, problem=problem)
    pods = _pods(environ)
    try:
        return _node_hints(environ, pods)
    except BadPlatformValue as error:
        return Hints(nodes=len(pods), problem=error)


def _node_hints(environ: Mapping[str, str], pods: dict[str, list[str]]) -> Hints:
    if len(pods) <= 1:
        return Hints()
    hosts, source = list(pods), _source(environ)
    rank = Variables("PaddleCloud", environ).number("PADDLE_TRAINER_ID", 0, len(hosts) - 1)
    own = environ["POD_IP"] if environ["POD_IP"] in hosts else hosts[rank]
    first = _ports(environ, source, pods[hosts[0]])
    # Below the workers' ports: other nodes do not know how many of them the first node uses.
    master = endpoint(hosts[0], str(min(first) - 1 if first else MASTER_PORT))
    ports = _ports(environ, source, pods[own])
    run = range(ports[0], ports[0] + len(ports)) if ports else range(0)
    consecutive = run if list(run) == ports else range(0)
    return Hints(source, len(hosts), rank, "PADDLE_TRAINER_ID", master, consecutive)


def _source(environ: Mapping[str, str]) -> str:
    return next(name for name in LISTS if environ.get(name))


def _pods(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the addresses of the job's pods in order, each with the ports listed for it."""
    if environ.get("PADDLE_TRAINERS_NUM") == "1":
        return {}  # as in Paddle: this is how users run a separate job on each machine
    pods: dict[str, list[str]] = {}
    for word in filter(None, (part.strip() for part in environ[_source(environ)].split(","))):
        host, port = split_endpoint(word)
        pods.setdefault(host, []).extend([port] if port else [])
    return pods


def _ports(environ: Mapping[str, str], source: str, listed: list[str]) -> list[int]:
    """Return a pod's ports for workers. If one is named, it is the first of TRAINER_PORTS_NUM ports."""
    # PADDLE_PORT may differ between pods, so ports that are listed for all pods take precedence.
    if environ.get("PADDLE_PORT") and not listed and source != LISTS[0]:
        source, listed = "PADDLE_PORT", [environ["PADDLE_PORT"]]
    variables = Variables("PaddleCloud", environ)
    ports = [variables.number(source, 1, LAST_PORT, word) for word in listed]
    if len(ports) != 1:
        return ports
    count = variables.number("TRAINER_PORTS_NUM", 0, LAST_PORT)
    return list(range(ports[0], min(ports[0] + count, LAST_PORT + 1)))
