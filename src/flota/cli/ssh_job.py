"""`flota --hosts …`: from settings to a job over ssh."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from flota import errors
from flota.cli.engine_job import CHOSEN_BY_ENGINE, NOT_COMMON, make_job, reject_tasks
from flota.cli.flags import BY_NAME
from flota.cli.parse import CommandLine, parse
from flota.cli.settings import Settings, gather, without_parents_variables
from flota.engines import EngineJob, load
from flota.engines.ssh_hosts import SshHost, read_hostfile, read_hosts

# Why a flag cannot be given with a list of hosts; the others set the master.
WHY = {
    "interactive": "a worker elsewhere has no terminal",
    "rank": "ranks follow the order of the hosts",
    "host": "each host has its own address",
    "network_interface": "each host has its own interfaces",
    "standalone": "it is for one machine",
}


def run_over_ssh(words: list[str], environ: Mapping[str, str]) -> int:
    engine = load("ssh")
    job, options = read_ssh_job(words, environ)
    planned = engine.plan(job, engine.observe(job, options))
    if options["dry_run"]:
        print(planned.text, end="")
        return 0
    return engine.follow(engine.start(planned, environ))


def read_ssh_job(words: list[str], environ: Mapping[str, str]) -> tuple[EngineJob, dict[str, Any]]:
    """The job, and the options of engines/ssh.py."""
    line = parse(words, BY_NAME, NOT_COMMON)
    settings = gather(line.given, without_parents_variables(environ), os.curdir)
    reject_tasks(settings.source("hosts") or settings.source("hostfile"), environ)
    _reject_contradictions(settings)
    hosts = _find_hosts(settings)
    several = settings["console"] == "all" or "," in str(settings["console"])
    if several and not settings["log_line_prefix_template"]:
        line = line._replace(common=("--log-line-prefix-template=[${hostname}:${rank}] ", *line.common))
    options = {dest: settings[dest] for dest in ("sync", "detach", "fetch_logs", "chdir", "remote_python", "dry_run")}
    options |= {"hosts": hosts, "by_line": several, "forward": _find_variables(settings, environ)}
    options["ssh_options"] = _split_words(settings)
    options["digest"] = "" if settings["module"] or settings["no_python"] else _digest(line, settings)
    if any(host.workers for host in hosts) and not settings.source("nproc_per_node").startswith("-"):
        settings.given.pop("nproc_per_node", None)
    return make_job(line, settings, _count_nodes(settings, hosts), environ), options


def _reject_contradictions(settings: Settings) -> None:
    source = settings.source("hosts") or settings.source("hostfile")
    if settings["hosts"] and settings["hostfile"]:
        raise errors.Contradiction(settings.source("hosts"), settings.source("hostfile"), "both name the hosts")
    for dest in (*CHOSEN_BY_ENGINE, "interactive"):
        if settings.source(dest).startswith("-"):
            raise errors.Contradiction(settings.source(dest), source, WHY.get(dest, "the first host is the master"))
    if settings["detach"] and settings["fetch_logs"]:
        raise errors.Contradiction(settings.source("detach"), settings.source("fetch_logs"), "the job has not ended")


def _find_hosts(settings: Settings) -> tuple[SshHost, ...]:
    if settings["hosts"]:
        hosts = read_hosts(settings.source("hosts"), settings["hosts"], settings.host_groups)
        dest = "hosts"
    else:
        path, dest = settings["hostfile"], "hostfile"
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                hosts = read_hostfile(path, file.read())
        except OSError as error:
            raise errors.UnreadableFile(settings.source(dest), path, error.strerror or str(error)) from None
    workers, source = settings["nproc_per_node"], settings.source("nproc_per_node")
    other = next((host for host in hosts if host.workers and host.workers != workers), None)
    if other and source.startswith("-"):
        why = f"{other.workers} workers on {other.name}"
        raise errors.Contradiction(settings.spelled("nproc_per_node"), settings.spelled(dest), why)
    return hosts


def _count_nodes(settings: Settings, hosts: tuple[SshHost, ...]) -> tuple[int, int]:
    """Each host is one node, or a spare."""
    (least, most), spares = settings["nnodes"], settings["spares"]
    listed = f"--hosts with {len(hosts)} host{'s' * (len(hosts) > 1)}"
    if not settings.source("nnodes"):
        if spares >= len(hosts):
            raise errors.Contradiction(settings.spelled("spares"), listed, "no host would work")
        return len(hosts) - spares, len(hosts) - spares
    if most + spares != len(hosts):
        nodes = settings.spelled("nnodes") + (f" {settings.spelled('spares')}" if spares else "")
        raise errors.Contradiction(nodes, listed, "each host is one node")
    return least, most


def _find_variables(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    names = [name.strip() for name in settings["forward"].split(",") if name.strip()]
    missing = next((name for name in names if name not in environ), "")
    if missing:
        raise errors.BadValue(
            settings.source("forward"), missing, "variables that are set here", "--forward WANDB_API_KEY"
        )
    return {name: environ[name] for name in names}


def _split_words(settings: Settings) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(settings["ssh_options"]))
    except ValueError as error:
        source = settings.source("ssh_options")
        raise errors.BadValue(source, settings["ssh_options"], f"words as in a shell ({error})", "") from None


def _digest(line: CommandLine, settings: Settings) -> str:
    """Of the script, if it is here: it may be only on the hosts."""
    from hashlib import sha256

    try:
        with open(line.script or "", "rb") as file:
            return sha256(file.read()).hexdigest()
    except OSError:
        if settings["sync"]:
            raise errors.UnreadableFile("--sync", line.script or "", "not in this directory") from None
        return ""
