"""What a platform specifies, and how the platforms whose variables are set are asked. Imported only then. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flota.errors import BadPlatformValue
from flota.job.spec import MachineShare
from flota.platforms import Platform, find_marked
from flota.values import NamedTuple


class Hints(NamedTuple):
    """What the platform specifies for this node's job. The defaults describe an ordinary job of one node."""

    source: str = ""  # the variable that names the nodes, or the role
    nodes: int = 1  # 0: not known
    rank: int = 0  # -1: not known
    rank_source: str = ""
    master: str = ""  # HOST:PORT of the rendezvous; empty: not known
    ports: range = range(0)  # reserved for this node's workers
    role: str = ""  # the role in which this node runs the script, once, as the platform names it
    own_role: str = ""  # the same role as flota names it
    framework: str = ""  # the framework whose variables the platform has set for the role
    not_settings: tuple[str, ...] = ()  # variables of the role that must not be read as flags
    problem: BadPlatformValue | None = None  # the error about an invalid variable
    workers: int = 0  # on this node; 0: not known
    workers_source: str = ""
    share: MachineShare | None = None  # if the platform starts one node per worker
    cpus: int = 0  # of this node; 0: not known
    job_id: str = ""
    job_source: str = ""
    log_dir: str = ""  # the log directory, if jobs of the platform share a working directory
    grace: float = 0.0  # shorter than the time between the platform's SIGTERM and its SIGKILL; 0: not known
    master_source: str = ""  # empty: `source`
    restarts: int = 0  # how often the platform has started this job again
    spare_ports: tuple[int, ...] = ()  # for the master, if its port is taken; the same on all nodes
    may_serve: bool = True  # whether this node may serve the master, if its machine has the address
    alone: str = ""  # why the job runs on this machine only, although the platform has more


def find_platforms(environ: Mapping[str, str], read_file: Callable[[str], str] = str) -> list[tuple[Platform, Hints]]:
    """Return the platforms that are detected, in the order of REGISTRY."""
    found = [(row, detect(row, environ, read_file)) for row in find_marked(environ)]
    return [(row, hints) for row, hints in found if hints]


def detect(platform: Platform, environ: Mapping[str, str], read_file: Callable[[str], str]) -> Hints | None:
    paths = {name: name if name.startswith("/") else environ.get(name) for name in platform.files}
    contents = {name: read_file(path) for name, path in paths.items() if path}
    module = __import__(f"flota.platforms.{platform.name}", fromlist=["detect"])
    try:
        hints: Hints | None = module.detect({**environ, **contents})
    except BadPlatformValue as error:
        return Hints(problem=error)
    return hints
