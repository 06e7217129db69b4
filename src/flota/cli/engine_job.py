"""Turns the words of a command into an EngineJob and the engine's own options."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Mapping
from typing import Any

from flota import errors
from flota.cli.flags import BY_NAME, FLAGS, WITHOUT_HOSTS, Flag
from flota.cli.job_secrets import read_token
from flota.cli.nodes_spec import read_spares
from flota.cli.parse import ACCUMULATED, PER_NODE_FLAGS, CommandLine, Given, nearest, store
from flota.cli.platform_settings import read_host_file
from flota.cli.settings import Request, Settings, format_value, gather, to_words, without_parents_variables
from flota.engines import EngineJob, Option
from flota.errors.engines import ChosenByEngine, NotInSlurm, RunsOncePerTask
from flota.job.slurm_variables import is_task
from flota.platforms import find_platforms

CHOSEN_BY_ENGINE = (
    *("master", "rank", "ips", "standalone", "host", "network_interface"),
    *("rdzv_backend", "rdzv_endpoint", "rdzv_conf", "master_addr", "master_port"),
)
SSH_FLAGS = ("hosts", "hostfile", *(flag.dest for flag in FLAGS if flag.note == WITHOUT_HOSTS))
NOT_FORWARDED = ("dry_run", "json", "nnodes", "stop_before", *SSH_FLAGS)  # flags that are for the command that submits
# Flags that nodes do not get as they were given: those, and what the engine decides.
NOT_COMMON = (*PER_NODE_FLAGS, *(dest.replace("_", "-") for dest in NOT_FORWARDED))


def engine_rows(options: tuple[Option, ...]) -> dict[str, Flag]:
    """Rows for the parser: an engine's options beside the flags of a job."""
    own = {one.name: Flag(one.name, one.kind, one.default, "engine", one.help, one.metavar) for one in options}
    return {**BY_NAME, **own}


def make_engine_job(
    line: CommandLine, engine: str, options: tuple[Option, ...], environ: Mapping[str, str]
) -> tuple[EngineJob, dict[str, Any]]:
    """The job and the engine's options. Options come from the command line, then from [submit.ENGINE] of flota.toml."""
    rows = engine_rows(options)
    own = {one.name.replace("-", "_"): one.default for one in options}
    job_flags = {dest: given for dest, given in line.given.items() if dest not in own}
    settings = gather(job_flags, without_parents_variables(environ), os.curdir)
    for dest in (*CHOSEN_BY_ENGINE, "hosts", "hostfile"):
        if settings.source(dest).startswith("-"):
            raise ChosenByEngine(settings.source(dest), engine)
    if settings["stop_before"] and engine != "slurm":
        raise NotInSlurm(settings.source("stop_before"), "a Slurm job")
    chosen = _from_table(settings, engine, rows, own)
    chosen |= {dest: given for dest, given in line.given.items() if dest in own}
    own |= {dest: given.value for dest, given in chosen.items()}
    return make_job(line, settings, _nodes(settings, chosen.get("nodes")), environ), own


def reject_tasks(command: str, environ: Mapping[str, str]) -> None:
    """A task of srun or mpirun, or a pod of a job, must not start a job: all of them would."""
    for platform, hints in find_platforms(environ, read_host_file):
        if hints.nodes != 1:
            raise RunsOncePerTask(command, platform.title, hints.nodes)


def _from_table(settings: Settings, engine: str, rows: dict[str, Flag], own: Mapping[str, object]) -> dict[str, Given]:
    name = settings.tables_from or "flota.toml"
    table = settings.submit.get(engine, {})
    if not isinstance(table, dict):
        raise errors.BadConfigFile(name, f"`submit.{engine}` is not a table")
    given: dict[str, Given] = {}
    for key, value in table.items():
        dest = key.replace("-", "_")
        if dest not in own:
            raise errors.UnknownKey(name, f"submit.{engine}.{key}", nearest(dest, list(own)))
        flag = rows[dest.replace("_", "-")]
        for word in to_words(value, one_each=flag.kind in ACCUMULATED):
            store(given, flag, f"`submit.{engine}.{key}` in {name}", word)
    return given


def make_job(line: CommandLine, settings: Settings, nodes: tuple[int, int], environ: Mapping[str, str]) -> EngineJob:
    """`nodes`: the least and the most."""
    get = settings.__getitem__
    if not line.script:
        raise errors.NoScript
    if settings.tables:
        raise errors.BadConfigFile(settings.tables_from, "tables of roles cannot be sent to an engine")
    if get("view"):
        raise errors.Contradiction(settings.source("view"), "nodes elsewhere", "show the job with flota top --at")
    least, most = nodes
    kind = "module" if get("module") else "program" if get("no_python") else "script"
    return EngineJob(
        words=(*_words_of_settings(settings), *line.common),
        least=least,
        most=most,
        job_id=get("job_id"),
        kind=kind,
        target=line.script,
        directory=os.getcwd(),
        log_dir=get("log_dir"),
        grace=get("grace") if settings.source("grace") else None,
        preempt_signal=get("preempt_signal") or "",
        stop_before=get("stop_before"),
        token=read_token(environ) or secrets.token_urlsafe(24),
        preempt_timeout=get("preempt_timeout"),
        spares=read_spares(settings),
    )


def _nodes(settings: Settings, nodes: Given | None) -> tuple[int, int]:
    """--nodes and --nnodes mean the same here, and must agree."""
    if nodes is None:
        count: tuple[int, int] = settings["nnodes"]
        return count
    if settings.source("nnodes") and settings["nnodes"] != nodes.value:
        other = f"{nodes.source} {format_value('nnodes', nodes.value)}"
        raise errors.Contradiction(settings.spelled("nnodes"), other, "both set the number of nodes")
    assert isinstance(nodes.value, tuple)
    return nodes.value


def _words_of_settings(settings: Settings) -> list[str]:
    """Settings from variables and the config file as flags: a node elsewhere has neither."""
    words = []
    for dest, given in settings.given.items():
        if given.source.startswith("-") or dest in NOT_FORWARDED or dest in CHOSEN_BY_ENGINE:
            continue
        if dest == "env":
            words += [f"--env={name}={value}" for name, value in settings["env"]]
        else:
            words.append(f"--{dest}={format_value(dest, given.value)}")
    return words


def start_with_srun(request: Request) -> int | None:
    """Start one flota per node with srun. Returns None in a task of srun, which is one of these."""
    from flota.engines import slurm_step

    if is_task(request.environ):
        return None
    words = request.line.common
    if request.settings["dry_run"]:
        print(shlex.join(slurm_step.step_command(words, "flota", request.environ)))
        return 0
    return slurm_step.run_step(words, read_token(request.environ) or secrets.token_urlsafe(24), request.environ)
