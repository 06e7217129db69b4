"""Chooses a strategy before any import: from the command, the modules that users name, and the script's own imports."""

from __future__ import annotations

import os
import sys

from flota.job.spec import Command, JobSpec
from flota.standby.modules_to_import import known_modules, likely_modules
from flota.standby.strategy import (
    AUTO,
    COLD,
    FORK,
    POOL,
    first_never_forked,
    first_not_known_forkable,
    first_that_reads_rank,
    initial_strategy,
)
from flota.values import NamedTuple


class FirstChoice(NamedTuple):
    """`why`: why it is not FORK. `uncertain`: with FORK, a package that may turn out to be unforkable. `parks_early`:
    whether a pool can be parked before the ranks are known."""

    strategy: str
    why: str = ""
    uncertain: str = ""
    parks_early: bool = False


def choose(spec: JobSpec) -> FirstChoice:
    commands = [role.command or spec.command for role in spec.all_roles if role.workers]
    strategy, why = initial_strategy(commands, [one.python for one in commands if _is_script(one.python)])
    if not hasattr(os, "memfd_create"):
        return FirstChoice(COLD, "this system has no memfd_create()")
    return _choose_by_modules(spec, commands[0]) if strategy == FORK else FirstChoice(strategy, why)


def _choose_by_modules(spec: JobSpec, command: Command) -> FirstChoice:
    modules = known_modules(command, spec.warm)
    never, reads_rank = first_never_forked(modules), first_that_reads_rank(modules)
    if never:
        return FirstChoice(POOL, f"{never} is never forked", parks_early=spec.nodes is not None)
    if reads_rank and (spec.nodes or spec.workers > 1):
        return FirstChoice(POOL, f"{reads_rank} reads the rank of its worker when it is imported")
    likely = likely_modules(command, spec.warm)
    return FirstChoice(FORK, uncertain=first_not_known_forkable(likely, sys.stdlib_module_names))


def waits_at_first(spec: JobSpec, choice: FirstChoice) -> bool:
    """Whether the first workers wait for the imports: with `auto`, only if these are known to be forkable."""
    return AUTO not in spec.warm or not choice.uncertain


def _is_script(python: str) -> bool:
    """Whether an interpreter is a script: it may start Python with flags that prevent parking."""
    try:
        with open(python, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False  # the start will report the error
