"""Decides how the next workers start: as forks of one interpreter, in parked interpreters, or cold. Runs in the node
and in workers' interpreters: Python 3.8. Pure."""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flota.job.spec import Command

AUTO = "auto"
# They have threads of their own below Python's, or declare themselves that a fork of them is not safe.
NEVER_FORKED = ("jax", "jaxlib", "tensorflow")
FORK, POOL, COLD = "fork", "pool", "cold"  # ways to start


class ImportOutcome(NamedTuple):
    """The state of an interpreter after its imports."""

    failed: str = ""  # why a module could not be imported
    never_forked: str = ""  # an imported module that must not be forked
    threads: int = 1
    opened: str = ""  # a device, a file or shared memory that an import opened
    children: bool = False  # an import started processes
    random: str = ""  # why forks cannot be given random states of their own
    misread: str = ""  # a variable that an import read, and that has another value for a worker
    changed: str = ""  # a module's file that changed after its import

    @property
    def refusal(self) -> str:
        """Why this interpreter cannot become the worker that it was parked for; empty when it can."""
        if self.changed:
            return f"`{self.changed}` has changed since it was imported"
        return self.failed or (f"an import has read {self.misread}, which is another now" if self.misread else "")

    @property
    def unforkable(self) -> str:
        """Why workers cannot be forks of this interpreter; empty when they can."""
        reasons = (
            (self.never_forked, f"{self.never_forked} is never forked"),
            (self.misread, f"an import has read {self.misread}, which is not the same for all workers"),
            (self.opened, f"`{self.opened}` is open after the imports"),
            (self.children, "the imports have started processes"),
            (self.random, self.random),
            (self.threads > 1, f"there are {self.threads} threads after the imports"),
            (self.refusal, self.refusal),
        )
        return next((reason for holds, reason in reasons if holds), "")

    @property
    def way_instead_of_fork(self) -> str:
        """The way of later starts when this interpreter is unforkable. After a change another one may be forkable."""
        return COLD if self.failed else FORK if self.changed else POOL


def first_choice(commands: Sequence[Command], wrappers: Sequence[str]) -> tuple[str, str]:
    """The way, and why not by fork, before anything is imported. `wrappers`: interpreters that are scripts."""
    if wrappers:
        return COLD, f"`{wrappers[0]}` is a script, not an interpreter"
    program = next((command for command in commands if command.kind == "program"), None)
    if program:
        return COLD, f"`{program.target}` is not a Python script"
    if len({(command.python, command.kind, command.target) for command in commands}) > 1:
        return POOL, "the roles have scripts of their own"
    return FORK, ""


def first_never_forked(modules: Sequence[str]) -> str:
    """The first of these modules that must not be forked."""
    packages = {module.partition(".")[0] for module in modules}
    return next((name for name in NEVER_FORKED if name in packages), "")


def common_variables(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The variables that are the same for all workers."""
    first, *others = environments
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
