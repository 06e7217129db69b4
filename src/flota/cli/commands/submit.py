"""`flota submit ENGINE [OPTIONS] SCRIPT …`: start a job's nodes through a cluster's own engine."""

from __future__ import annotations

import os
from textwrap import wrap

from flota.cli.engine_job import NOT_COMMON, engine_rows, make_engine_job, reject_tasks
from flota.cli.parse import parse
from flota.engines import COMMON, REGISTRY, Option, load
from flota.errors.engines import UnknownEngine

USAGE = """\
usage: flota submit ENGINE [OPTIONS] [FLAGS] SCRIPT [ARGUMENTS]

Start a job on a cluster: flota asks the engine for nodes, and runs there as
it does here. FLAGS are those of `flota --help`. OPTIONS can also be set in
flota.toml, in a table [submit.ENGINE]. --dry_run prints what would be created.

"""
WIDTH, COLUMN = 80, 26
RAY_DRIVER = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set for what `ray job submit` runs, once


def main(words: list[str]) -> int:
    names = [row.name for row in REGISTRY if not row.flag]
    if words[:1] in (["-h"], ["--help"]):
        print(USAGE + _engines(), end="")
        return 0
    if words[:1] not in [[name] for name in names]:
        raise UnknownEngine(words[0] if words else "", names)
    name = words[0]
    engine = load(name)
    options = tuple({option.name: option for option in (*COMMON, *engine.OPTIONS)}.values())
    line = parse(words[1:], engine_rows(options), NOT_COMMON)
    if "help" in line.given:
        print(USAGE.replace("ENGINE", name) + _help(options), end="")
        return 0
    if RAY_DRIVER not in os.environ:  # Ray may have been started by srun, on all its nodes
        reject_tasks(f"flota submit {name}", os.environ)
    job, chosen = make_engine_job(line, name, options, os.environ)
    observed = engine.observe(job, chosen)
    plan = engine.plan(job, observed)
    if "dry_run" in line.given:
        print(plan.text, end="")
        return 0
    running = engine.start(plan, os.environ)
    return engine.follow(running) if observed["follow"] else 0


def _engines() -> str:
    lines = [f"  {row.name:<{COLUMN - 2}}{row.title}" for row in REGISTRY if not row.flag]
    return "\n".join(["engines:", *lines, "", "Options of an engine: flota submit ENGINE --help", ""])


def _help(options: tuple[Option, ...]) -> str:
    lines = ["options:"]
    for option in options:
        left = f"  --{option.name.replace('-', '_')} {option.metavar}".rstrip()
        text = wrap(option.help, WIDTH - COLUMN)
        if len(left) > COLUMN - 2:
            lines.append(left)
            left = ""
        lines.append(f"{left:<{COLUMN}}{text[0]}")
        lines += [f"{'':<{COLUMN}}{more}" for more in text[1:]]
    return "\n".join([*lines, ""])
