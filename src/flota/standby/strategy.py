"""Decides how the next workers start: as forks of one interpreter, from parked interpreters, or cold. Runs in the node
and in workers' interpreters: Python 3.8. Pure."""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from flota.job.spec import Command

AUTO = "auto"
# They start native threads, or document that they are not fork-safe.
NEVER_FORKED = ("jax", "jaxlib", "tensorflow")
# They read the rank of their worker when they are imported.
READ_RANK = ("paddle", "lightning", "lightning_fabric", "pytorch_lightning", "torchmetrics")
# Forked by the tests of flota with their real versions, apart from Python's own modules.
FORKABLE = ("torch", "numpy", "paddle", "flota")
RANKS = ("RANK", "LOCAL_RANK", "PADDLE_TRAINER_ID")
FORK, POOL, COLD = "fork", "pool", "cold"  # the strategies


class ImportOutcome(NamedTuple):
    """The state of an interpreter after its imports."""

    failed: str = ""  # why a module could not be imported
    never_forked: str = ""  # an imported module that must not be forked
    threads: int = 1
    opened: str = ""  # a device, a file or shared memory that an import opened
    children: bool = False  # an import started processes
    random: str = ""  # why forks cannot be reseeded
    changed_variable: str = ""  # a variable that an import read and that has another value in a worker
    changed_file: str = ""  # a module's file that changed after its import

    @property
    def refusal(self) -> str:
        """Why this interpreter cannot become the worker that it was parked for; empty if it can."""
        if self.changed_file:
            return f"`{self.changed_file}` has changed since it was imported"
        if self.failed:
            return self.failed
        return f"an import read {self.changed_variable}, which has changed since" if self.changed_variable else ""

    @property
    def unforkable(self) -> str:
        """Why workers cannot be forked from this interpreter; empty if they can."""
        reasons = (
            (self.never_forked, f"{self.never_forked} is never forked"),
            (self.changed_variable, f"an import read {self.changed_variable}, which differs between workers"),
            (self.opened, f"an import opened `{self.opened}`"),
            (self.children, "an import started a process"),
            (self.random, self.random),
            (self.threads > 1, f"the imports left {self.threads} threads running"),
            (self.refusal, self.refusal),
        )
        return next((reason for holds, reason in reasons if holds), "")

    @property
    def strategy_without_fork(self) -> str:
        """The strategy for later starts if this one is unforkable. After a file changed, a new one may be forkable."""
        return COLD if self.failed else FORK if self.changed_file else POOL


def initial_strategy(commands: Sequence[Command], wrappers: Sequence[str]) -> tuple[str, str]:
    """Return the strategy before any import, and why it is not FORK. `wrappers` are interpreters that are scripts."""
    if wrappers:
        return COLD, f"`{wrappers[0]}` is a script, not an interpreter"
    program = next((command for command in commands if command.kind == "program"), None)
    if program:
        return COLD, f"`{program.target}` is not a Python script"
    if len({(command.python, command.kind, command.target) for command in commands}) > 1:
        return POOL, "the roles run different scripts"
    return FORK, ""


def first_never_forked(modules: Sequence[str]) -> str:
    """Return a package among these modules that must not be forked; empty if there is none."""
    return _first_package(NEVER_FORKED, modules)


def first_that_reads_rank(modules: Sequence[str]) -> str:
    """Return a package among these modules that reads the worker's rank when it is imported; empty if there is none."""
    return _first_package(READ_RANK, modules)


def first_not_known_forkable(modules: Sequence[str], pythons: Collection[str]) -> str:
    """Return a package among these modules that may turn out to be unforkable; empty if there is none. `pythons`:
    Python's own modules."""
    packages = (module.partition(".")[0] for module in modules)
    return next((name for name in packages if name not in FORKABLE and name not in pythons), "")


def _first_package(wanted: Sequence[str], modules: Sequence[str]) -> str:
    packages = {module.partition(".")[0] for module in modules}
    return next((name for name in wanted if name in packages), "")


def common_variables(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables that are the same for all workers."""
    first, *others = environments
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def varying_variables(environments: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the variables that differ between workers. They include the ranks while no rank is known."""
    common = common_variables(environments)
    varying = {name for env in environments for name in env if name not in common}
    return sorted(varying if knows_ranks(environments) else varying.union(RANKS))


def knows_ranks(environments: Sequence[Mapping[str, str]]) -> bool:
    """Whether the workers have their ranks: not before all nodes have joined."""
    return any(name in env for env in environments for name in RANKS)
