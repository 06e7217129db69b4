"""Engines start the nodes of a job on other machines: one module per engine, and a row in REGISTRY. Pure.

An engine is a module with these names:

    OPTIONS                           its own flags, in the engine's own words
    observe(job, options) -> options  add what a plan needs: files to send, and what the engine says about itself
    plan(job, options) -> Plan        what it will create; pure, and what --dry_run prints
    start(plan, environ) -> Running   create it
    follow(running) -> int            show the job's output until it ends; returns the job's exit code

An engine's option replaces one of COMMON that has the same name. `observe` sets `follow` if jobs end with this process.
`running.stop()` asks the job to stop, so that workers can save; `running.kill()` does not wait for them.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    Options = Mapping[str, Any]

    class Plan(Protocol):
        """What an engine will create. `text` is for people: a script, a manifest, commands; it contains no secret."""

        @property
        def text(self) -> str: ...

    class Running(Protocol):
        """A job that an engine has started."""

        def stop(self) -> None: ...
        def kill(self) -> None: ...

    class Engine(Protocol):
        OPTIONS: tuple[Option, ...]

        def observe(self, job: EngineJob, options: Options) -> Options: ...
        def plan(self, job: EngineJob, options: Options) -> Plan: ...
        def start(self, plan: Any, environ: Mapping[str, str]) -> Running: ...
        def follow(self, running: Any) -> int: ...


class Row(NamedTuple):
    """One engine, for `flota submit NAME`."""

    name: str  # of its module
    title: str
    flag: str = ""  # the flag that selects it instead


REGISTRY = (
    Row("ssh", "OpenSSH", flag="--hosts"),
    Row("slurm", "Slurm, with sbatch"),
    Row("kubernetes", "Kubernetes, with kubectl"),
    Row("ray", "a Ray cluster"),
)


class Option(NamedTuple):
    """A flag of one engine. `kind`: see cli/convert.py."""

    name: str
    kind: str
    help: str
    metavar: str = ""
    default: object = None


COMMON = (
    Option("nodes", "nodes", "number of nodes: N, or MIN:MAX if it may vary [1]", "N", (1, 1)),
    Option("follow", "switch", "show the job's output until it ends; Ctrl-C detaches, two within 3 s stop the job"),
)


class EngineJob(NamedTuple):
    """A job as every engine gets it.

    `words` are flota's arguments on each node: flags, script and the script's arguments. They include neither the nodes
    nor the master, which the engine chooses.
    """

    words: tuple[str, ...]
    least: int
    most: int
    job_id: str
    kind: str  # script, module or program
    target: str  # the script, module or program, as the user wrote it
    directory: str  # where the command was given
    log_dir: str
    grace: float | None  # None: not given, so the engine's own grace decides
    preempt_signal: str
    stop_before: float | None  # seconds before the engine's time limit at which workers are asked to save
    token: str  # never in `text`, in a command line or in a file that others can read
    preempt_timeout: float | None = None  # None: not given
    spares: int = 0  # nodes beyond `most`, which wait to replace one

    def __repr__(self) -> str:
        return f"EngineJob({self.target!r}, …)"

    @property
    def elastic(self) -> bool:
        return self.least != self.most

    @property
    def started(self) -> int:
        """How many nodes the engine starts, at most."""
        return self.most + self.spares

    @property
    def least_started(self) -> int:
        return self.least if self.elastic else self.started

    @property
    def nodes(self) -> str:
        """For --nnodes."""
        return f"{self.least}:{self.most}" if self.elastic else str(self.most)

    @property
    def name(self) -> str:
        """A short name for what the engine creates: the job id, or the script's name if the user gave no id."""
        if self.job_id != "default":
            return self.job_id
        last = self.target.rpartition("/")[2]
        return last.rpartition(".")[0 if self.kind != "module" and "." in last[1:] else 2] or last


def load(name: str) -> Engine:
    engine: Engine = __import__(f"flota.engines.{name}", fromlist=["plan"])
    return engine
