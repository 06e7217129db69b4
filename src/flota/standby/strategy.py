"""Which way warm workers come, and why. Pure, and the same on both sides of the link: Python 3.8. Pure."""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flota.job.spec import Command

AUTO = "auto"
# They have threads of their own below Python's, or say themselves that a fork of them is not to be trusted.
NEVER_FORKED = ("jax", "jaxlib", "tensorflow")
# Variables that libraries in C read when they are loaded, where nobody can see it.
READ_BY_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
READ_BY_PADDLE = ("FLAGS_selected_gpus", "FLAGS_selected_xpus", "FLAGS_selected_npus", "FLAGS_selected_mlus")
FORK, SPARES, COLD = "fork", "spares", "cold"


class Way(NamedTuple):
    """How workers come, and why not by fork."""

    way: str
    why: str = ""


class Parked(NamedTuple):
    """What an interpreter is like after its imports."""

    failed: str = ""  # why one of them could not be imported
    never_forked: str = ""  # one that must not be
    threads: int = 1
    opened: str = ""  # a device, a file or shared memory that an import has opened
    children: bool = False  # an import has started processes
    generators: bool = False  # a module has random generators of its own
    misread: str = ""  # a variable that an import has read, and that is another for a worker
    stale: str = ""  # a file of a module that has changed since

    @property
    def refusal(self) -> str:
        """Why the worker that it was parked for cannot come of it; empty when it can."""
        if self.stale:
            return f"`{self.stale}` has changed since it was imported"
        return self.failed or (f"an import has read {self.misread}, which is another now" if self.misread else "")

    @property
    def unforkable(self) -> str:
        """Why no fork of it can be a worker; empty when one can."""
        reasons = (
            (self.never_forked, f"{self.never_forked} is never forked"),
            (self.misread, f"an import has read {self.misread}, which is not the same for all workers"),
            (self.opened, f"`{self.opened}` is open after the imports"),
            (self.children, "the imports have started processes"),
            (self.generators, "a module has a random generator of its own"),
            (self.threads > 1, f"there are {self.threads} threads after the imports"),
            (self.refusal, self.refusal),
        )
        return next((words for holds, words in reasons if holds), "")


def first_way(commands: Sequence[Command], wrappers: Sequence[str]) -> Way:
    """As far as it is known before anything is imported. `wrappers`: interpreters that are scripts."""
    if wrappers:
        return Way(COLD, f"`{wrappers[0]}` is a script, not an interpreter")
    program = next((command for command in commands if command.kind == "program"), None)
    if program:
        return Way(COLD, f"`{program.target}` is not a Python script")
    if len({(command.python, command.kind, command.target) for command in commands}) > 1:
        return Way(SPARES, "the roles have scripts of their own")
    return Way(FORK)


def never_forked(modules: Sequence[str]) -> str:
    """The first of these that must not be forked."""
    tops = {module.partition(".")[0] for module in modules}
    return next((name for name in NEVER_FORKED if name in tops), "")


def shared(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The variables that are the same for all workers: what one import can serve."""
    first, *others = environments
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
