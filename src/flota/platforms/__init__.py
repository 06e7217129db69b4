"""What a platform has said already about the job that it runs: one small file each, from the environment to hints.
Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple


class Hints(NamedTuple):
    """What the platform knows of this node's job. A job of one node without a role is a job like any other."""

    source: str = ""  # the variable that names the nodes
    nodes: int = 1
    rank: int = 0
    master: str = ""  # where the nodes meet
    ports: range = range(0)  # that are kept for this node's workers
    role: str = ""  # what this node runs the script as, once, with variables that the platform has given already
