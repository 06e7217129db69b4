"""Reads what a platform has set in the environment about the job: one module per platform.

A platform is a module with `detect(environ)`, and a row in REGISTRY. It is imported only if its
variables are set. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.errors import BadPlatformValue


class Platform(NamedTuple):
    """One platform. It is recognised if all its variables are set and `detect` returns hints."""

    name: str  # of its module
    title: str
    variables: tuple[str, ...]


REGISTRY = (
    Platform("paddlecloud", "PaddleCloud", ("PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM")),
)


class Hints(NamedTuple):
    """What the platform specifies for this node's job. The defaults describe an ordinary job of one node."""

    source: str = ""  # the variable that names the nodes, or the role
    nodes: int = 1
    rank: int = 0
    rank_source: str = ""
    master: str = ""  # HOST:PORT of the rendezvous
    ports: range = range(0)  # reserved for this node's workers
    role: str = ""  # the role in which this node runs the script, once, as the platform names it
    own_role: str = ""  # the same role as flota names it
    framework: str = ""  # the framework whose variables the platform has set for the role
    not_settings: tuple[str, ...] = ()  # variables of the role that must not be read as flags
    problem: BadPlatformValue | None = None  # the error about an invalid variable


def find_platform(environ: Mapping[str, str]) -> tuple[Platform, Hints] | None:
    """Return the platform that is detected, if any. Inside a worker of flota, its variables are for the parent."""
    for platform in REGISTRY if "FLOTA_GIVEN" not in environ else ():
        if all(environ.get(name) for name in platform.variables):
            hints = __import__(f"flota.platforms.{platform.name}", fromlist=["detect"]).detect(environ)
            if hints:
                return platform, hints
    return None
