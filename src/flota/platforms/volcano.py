"""Volcano: the pytorch plugin's RANK and WORLD_SIZE, which count pods, or the svc plugin's lists of hosts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flota.job.roster import endpoint
from flota.platforms import Hints
from flota.platforms.reading import OWN_PORT, POD_GRACE, Variables


def detect(environ: Mapping[str, str]) -> Hints:
    if all(environ.get(name) for name in ("MASTER_ADDR", "RANK", "WORLD_SIZE")):
        return _from_pytorch(Variables("Volcano", environ))
    return _from_lists(Variables("Volcano", environ))


def _from_pytorch(variables: Variables) -> Hints:
    nodes = variables.number("WORLD_SIZE", 1)
    rank = variables.rank("RANK", nodes, "WORLD_SIZE")
    master = variables.place("MASTER_ADDR", "MASTER_PORT") if nodes > 1 else ""
    return Hints("WORLD_SIZE", nodes, rank, "RANK", master, master_source="MASTER_ADDR", grace=POD_GRACE)


def _from_lists(variables: Variables) -> Hints:
    """The nodes are the pods of all tasks, in alphabetical order of the tasks. VC_TASK_INDEX counts within a task."""
    environ = variables.environ
    names = sorted(name for name in environ if name.startswith("VC_") and name.endswith("_HOSTS") and environ[name])
    hosts = [host for name in names for host in environ[name].split(",")]
    if len(hosts) <= 1:
        return Hints(grace=POD_GRACE)
    pods = [host.partition(".")[0] for host in hosts]
    if environ.get("HOSTNAME") not in pods:
        raise variables.error("HOSTNAME", f"in {' or '.join(names)}")
    rank, master = pods.index(environ["HOSTNAME"]), endpoint(hosts[0], str(OWN_PORT))
    return Hints(names[0], len(hosts), rank, "HOSTNAME", master, grace=POD_GRACE)
