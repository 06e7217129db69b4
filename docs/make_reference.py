"""Generates the parts of the documents that come from the code: flags, variables of a worker, tables of decisions.

python docs/make_reference.py            update the documents
python docs/make_reference.py --check    write nothing; exit with 1 if a document is out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from flota import platforms
from flota.cli.commands import REGISTRY as SUBCOMMANDS
from flota.cli.commands import Subcommand
from flota.cli.flags import (
    ALIASES,
    BY_NAME,
    DEPRECATED,
    FLAGS,
    GROUPS,
    ON_ONE_MACHINE,
    WITHOUT_HOSTS,
    WITHOUT_SERVERS,
    Alias,
    Flag,
)
from flota.cli.ipu import IPU_FLAGS, REFUSED
from flota.cli.settings import NEVER_IN_ENVIRONMENT
from flota.cluster import coordinator, follower, job_state
from flota.devices import KINDS
from flota.frameworks import REGISTRY as FRAMEWORKS
from flota.frameworks import add_variables, interface_variables, load
from flota.job.plan import plan_workers
from flota.job.roster import Ports, Roster, Seat
from flota.job.spec import NO_DEVICES, Command, DeviceSet, JobSpec, LogSpec
from flota.supervise import supervisor
from flota.supervise.events import Event

DOCS = Path(__file__).parent

# Effects that depend on the flag's value, or on the number of machines.
CONDITIONS = {
    "devices": "devices to use, as listed in *_VISIBLE_DEVICES; cpu for none [all]; before `ipu` a number",
    "max-restart": "restart all workers up to N times when one fails; restarts are off unless a flag enables them",
    "start-port": "if given, worker i gets the port PORT + i; otherwise workers get free ports",
    "rank": "this machine's number: below the number of machines, or -1; other values are an error",
    "ips": "one address: same as `--host`; several: the machines in order; the first serves on `--start_port` - 1",
    "standalone": "no effect: flota does this on one machine anyway",
    "bind": "[bind workers to CPUs](../guides/single-machine.md#bind-workers-to-cpus): none, auto, numa, socket, cache,"
    " core; torchrun's node, exclusive and core-complex mean numa, core and cache",
    "use-env": "with `python -m flota.torch_launch`: do not insert `--local-rank`",
}


class OutOfDate(Exception):
    """The documents lack a place or an explanation for something in the code."""


def main(words: list[str]) -> int:
    checking = words == ["--check"]
    stale = 0
    for name, make in DOCUMENTS.items():
        path = DOCS / name
        old = path.read_text() if path.exists() else ""
        new = make(old)
        if old == new:
            continue
        stale += 1
        if checking:
            print(f"out of date: docs/{name}; run `make docs`")
        else:
            path.write_text(new)
            print(f"wrote docs/{name}")
    return 1 if checking and stale else 0


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: made by docs/make_reference.py -->", f"<!-- end of {name} -->"


def filled(text: str, name: str, content: str) -> str:
    """The text with the content between the two marks of a part replaced."""
    begin, end = marks(name)
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise OutOfDate(f"no marks for {name}")
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


# Flags.


def flags_page(old: str) -> str:
    unknown = set(CONDITIONS) - set(BY_NAME)
    if unknown:
        raise OutOfDate(f"no such flags: {unknown}")
    groups = [f"## {title[0].upper()}{title[1:]}\n\n{flags_table(group)}" for group, title in GROUPS.items()]
    parts = {
        "flags": "\n".join(groups),
        "platforms": table(("platform", "recognized by"), map(platform_row, platforms.REGISTRY)),
        "subcommands": table(("word", "effect"), map(subcommand_row, SUBCOMMANDS)),
        "arguments after ipu": ipu_tables(),
    }
    for name, content in parts.items():
        old = filled(old, name, content)
    return old


def platform_row(platform: platforms.Platform) -> tuple[str, ...]:
    return platform.title, ", ".join(f"`{name}`" for name in platform.variables)


def subcommand_row(command: Subcommand) -> tuple[str, ...]:
    return f"`{command.name} {command.arguments}`", command.help


def flags_table(group: str) -> str:
    rows = []
    for flag in FLAGS:
        if flag.group == group:
            rows.append(flag_row(flag))
            rows += [alias_row(alias) for alias in ALIASES if alias.of == flag.name]
    return table(("flag", "effect", "default", "from", "variables"), rows)


def flag_row(flag: Flag) -> tuple[str, ...]:
    value = f" {flag.metavar}" if flag.metavar else ""
    spelled = f"`--{flag.dest}{value}`"
    read = [] if flag.refused else flag.variables.split()
    if flag.dest not in NEVER_IN_ENVIRONMENT and not flag.refused:
        read.insert(0, f"FLOTA_{flag.dest.upper()}")
    return (
        f"{spelled}, `{flag.short}`" if flag.short else spelled,
        effect_of(flag),
        default_of(flag),
        flag.origin,
        ", ".join(f"`{name}`" for name in read),
    )


def ipu_tables() -> str:
    """The arguments after `ipu`, and the flags that are refused before it."""
    arguments = [(f"`--{flag.dest} {flag.metavar}`", flag.origin, flag.help) for flag in IPU_FLAGS]
    flags_of: dict[str, list[str]] = {}
    for dest, why in REFUSED.items():
        flags_of.setdefault(why, []).append(f"`--{dest}`")
    refused = [(", ".join(names), f"refused: {why}") for why, names in flags_of.items()]
    return "\n".join([table(("argument", "from", "effect"), arguments), table(("before `ipu`", "effect"), refused)])


def alias_row(alias: Alias) -> tuple[str, ...]:
    names = ", ".join(f"`{name}`" for name in alias.variables.split())
    old = "; an old name: flota prints one note when it is used" if alias.deprecated else ""
    return (
        f"`--{underscored(alias.name)}`",
        f"same as `--{underscored(alias.of)}`{old}",
        "",
        alias.origin,
        names,
    )


def effect_of(flag: Flag) -> str:
    if flag.refused:
        return f"refused: {flag.refused}"
    if flag.note in (ON_ONE_MACHINE, WITHOUT_HOSTS, WITHOUT_SERVERS):
        return f"{flag.help}; {flag.note.removeprefix('has ')}"
    if flag.note:
        return flag.note.removeprefix("has ")
    old = "; deprecated: flota prints one note when it is used" if flag.name in DEPRECATED else ""
    if flag.name in CONDITIONS:
        return f"{CONDITIONS[flag.name]}{old}"
    return flag.help


def default_of(flag: Flag) -> str:
    value = flag.default
    if flag.kind in ("switch", "bool"):
        return "off"
    if flag.kind == "duration" and value is not None:
        return f"`{value:g}s`"
    if flag.kind == "nodes":
        return "`1`"
    if value is None or value in ((), ""):
        return ""
    return f"`{','.join(value) if isinstance(value, tuple) else value}`"


def underscored(name: str) -> str:
    return name.replace("-", "_")


# Variables.


def example(frameworks: tuple[str, ...], devices: DeviceSet) -> tuple[JobSpec, Roster]:
    """Two workers on one machine, with round port numbers that readers recognize as examples."""
    command = Command("script", "train.py", (), "python")
    spec = JobSpec(command, 2, LogSpec("/job/log"), devices=devices, frameworks=frameworks, threads=1)
    return spec, Roster(0, 0, (Seat("", "gpu01", "127.0.0.1", Ports(("40001", "40002"), "40003", "40004", "40005")),))


UNRESOLVED = " (on several machines, if the hostname does not resolve, or resolves to 127.0.1.1)"
WITHOUT = NO_DEVICES
WITH = DeviceSet("gpu", "CUDA_VISIBLE_DEVICES", ("4", "5"), ("4", "5"), by_id=False)


def of_framework(name: str, frameworks: tuple[str, ...], devices: DeviceSet) -> dict[str, str]:
    spec, roster = example(frameworks, devices)
    return load(name).variables(spec, roster, plan_workers(spec, roster, 0)[1])


def framework_table(name: str) -> str:
    """The variables of a framework for rank 1 of 2, with those marked that need devices or --framework."""
    together = FRAMEWORKS
    plain, on_devices = (of_framework(name, together, devices) for devices in (WITHOUT, WITH))
    alone = {**of_framework(name, (name,), WITH), **of_framework(name, (name,), WITHOUT)}
    meanings = meanings_in(f"flota.frameworks.{name}")
    rows = []
    for variable, value in {**plain, **on_devices, **alone}.items():
        where = ""
        if variable not in plain and variable not in on_devices:
            where = f" (only with `--framework {name}`{', or if the script needs it' if name == 'jax' else ''})"
        elif variable not in plain:
            where = " (with devices)"
        elif variable not in on_devices:
            where = " (without devices)"
        rows.append(variable_row(variable, plain.get(variable, value), where, meanings))
    return table(("variable", "rank 1 of 2", "meaning"), rows)


def own_table() -> str:
    spec, roster = example((), WITHOUT)
    env = add_variables(spec, roster, plan_workers(spec, roster, 0)[1], {}).env
    meanings = meanings_in("flota.frameworks")
    narrowed = {"CUDA_VISIBLE_DEVICES": "5,4"}
    shown = {**env, "FLOTA_GIVEN": "RANK,LOCAL_RANK,…"}
    return table(
        ("variable", "rank 1 of 2", "meaning"),
        [
            *(variable_row(name, value, "", meanings) for name, value in shown.items()),
            *(variable_row(name, value, " (with `--devices 5,4`)", meanings) for name, value in narrowed.items()),
            *(variable_row(name, value, UNRESOLVED, meanings) for name, value in interface_variables("eth0").items()),
        ],
    )


def meanings_in(module: str) -> dict[str, str]:
    """The comment on each variable: `"RANK": value,  # meaning`, or on a separate line `# RANK: meaning`."""
    text = Path(str(import_module(module).__file__)).read_text()
    own_line = re.findall(r"^ +# (\w+): (.+)$", text, re.MULTILINE)
    behind = re.findall(r'^[^#\n]*"(\w+)"(?:\]|:)[^#\n]*  # (.+)$', text, re.MULTILINE)
    return dict([*behind, *own_line])


def variable_row(name: str, value: str, where: str, meanings: dict[str, str]) -> tuple[str, ...]:
    if name not in meanings:
        raise OutOfDate(f"{name} is set without a comment that explains it")
    return f"`{name}`", f"`{value}`{where}", meanings[name]


def with_section(text: str, title: str) -> str:
    """The page with a section for this framework, inserted before the sections about other subjects."""
    if f"## {title}\n" in text:
        return text
    begin, end = marks(f"variables of {title}")
    before, heading, after = text.partition("## In a job with roles\n")
    return f"{before}## {title}\n\n{begin}\n\n{end}\n\n{heading}{after}"


def variables_page(old: str) -> str:
    for name in FRAMEWORKS:
        title = load(name).title
        old = filled(with_section(old, title), f"variables of {title}", framework_table(name))
    kinds = [(kind.name, ", ".join(f"`{name}`" for name in kind.variables), kind.vendor) for kind in KINDS]
    old = filled(old, "devices", table(("kind", "variables", "vendor"), kinds))
    return filled(old, "variables of flota", own_table())


# Tables of decisions.


def architecture_page(old: str) -> str:
    events = ((event.__name__, event) for event in get_args(Event))
    findings = ((finding, finding) for finding in coordinator.FINDINGS)
    situations = ((situation, situation) for situation in follower.SITUATIONS)
    phases = {phase: phase for phase in supervisor.PHASES}
    old = filled(old, "the supervisor", decisions("event", events, phases, supervisor.TABLE, supervisor.nothing))
    phases = {phase: phase for phase in job_state.PHASES}
    old = filled(old, "the coordinator", decisions("it sees", findings, phases, coordinator.TABLE, coordinator.nothing))
    columns = {"without workers": False, "with workers": True}
    cells = {(working, situation): cell for (situation, working), cell in follower.TABLE.items()}
    return filled(old, "the follower", decisions("the node sees", situations, columns, cells, follower.nothing))


def decisions(
    head: str, rows: Iterable[tuple[str, Any]], columns: dict[str, Any], cells: Mapping[Any, Any], nothing: object
) -> str:
    """A table of functions by name; `-` means that nothing is done."""
    return table(
        (head, *columns),
        [(name, *(in_words(cells[column, row], nothing) for column in columns.values())) for name, row in rows],
    )


def in_words(cell: Any, nothing: object) -> str:
    return "-" if cell is nothing else str(cell.__name__).strip("_").replace("_", " ")


DOCUMENTS: dict[str, Callable[[str], str]] = {
    "reference/flags.md": flags_page,
    "reference/variables.md": variables_page,
    "architecture.md": architecture_page,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
