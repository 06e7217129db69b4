"""What a platform has said already about the job that it runs: one small file each, from the environment to hints.

A platform is a file with `detect(environ)`, and a row in REGISTRY. The file is imported only where the marks are. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.errors import BadPlatformValue


class Platform(NamedTuple):
    """One platform. It takes all of its marks, and `detect`, to be recognised."""

    name: str  # the file's
    title: str
    marks: tuple[str, ...]  # variables


REGISTRY = (
    Platform("paddlecloud", "PaddleCloud", ("PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM")),
)


class Hints(NamedTuple):
    """What the platform knows of this node's job. A job of one node without a role is a job like any other."""

    source: str = ""  # the variable that names the nodes, or the role
    nodes: int = 1
    rank: int = 0
    rank_source: str = ""
    master: str = ""  # HOST:PORT of the rendezvous
    ports: range = range(0)  # that are kept for this node's workers
    role: str = ""  # what this node runs the script as, once, in the platform's word
    own_role: str = ""  # the same in flota's word
    framework: str = ""  # the one whose variables the platform has given to the role already
    not_settings: tuple[str, ...] = ()  # variables that belong to the role, though flags read them
    problem: BadPlatformValue | None = None  # a variable that makes no sense


def find_platform(environ: Mapping[str, str]) -> tuple[Platform, Hints] | None:
    """The first platform that is here. Not inside a worker of flota's: what a platform says was said to its parent."""
    for platform in REGISTRY if "FLOTA_GIVEN" not in environ else ():
        if all(environ.get(mark) for mark in platform.marks):
            hints = __import__(f"flota.platforms.{platform.name}", fromlist=["detect"]).detect(environ)
            if hints:
                return platform, hints
    return None
