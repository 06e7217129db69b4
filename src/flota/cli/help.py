"""--help: one screen a group, made from the rows of flags.py."""

from itertools import zip_longest
from textwrap import wrap

from flota import frameworks, platforms
from flota.cli.commands import REGISTRY as SUBCOMMANDS
from flota.cli.flags import ALIASES, FLAGS, GROUPS, SWITCH, Flag
from flota.cli.ipu import IPU_FLAGS
from flota.errors import BadValue

OVERVIEW = """\
usage: flota [flags] script.py [the script's own arguments]
       flota [flags] -m module …        flota [flags] --no-python program …
       flota --devices N ipu …
{subcommands}

{purpose}

  flota train.py --lr 0.1                 one worker a visible device, else one
  flota --nproc_per_node 4 train.py       four workers
  flota --devices 2,3 train.py            two workers, on these two devices
  flota --max_restart 3 train.py          start all anew when one fails
  flota --dry-run train.py                print the plan, start nothing

Flags go before the script; --a-b and --a_b are the same. Each can be set by a
variable (FLOTA_LOG_DIR) or in flota.toml (log_dir = "out"), too.
"""
PURPOSE = (
    "Starts one worker a device (one without any) of a distributed training script, gives each the variables of "
    "{frameworks}, watches them, and ends them all when one fails. Also as fleetrun, and as python -m flota."
)
COLUMN = 30
ROWS = (*FLAGS, *IPU_FLAGS)
TITLES = {**GROUPS, "ipu": "jobs on IPUs: behind --devices N ipu, all needed"}


def overview() -> str:
    titles = [frameworks.load(name).title for name in frameworks.REGISTRY]
    purpose = PURPOSE.format(frameworks=f"{', '.join(titles[:-1])} and {titles[-1]}")
    usages = [(f"       flota {command.name} {command.arguments}", command.help) for command in SUBCOMMANDS]
    rows = "\n".join(f"{usage:<40}{text}" for usage, text in usages)
    return OVERVIEW.format(subcommands=rows, purpose="\n".join(wrap(purpose, 80)))


def print_help(group: str) -> int:
    if group == "all":
        print(overview())
        for name in TITLES:
            print(_group(name))
    elif group in TITLES:
        print(_group(group), end="")
    elif group:
        raise BadValue("--help", group, f"one of all, {', '.join(TITLES)}", "flota --help workers")
    else:
        print(overview())
        print(_group("script"))
        print("More: flota --help GROUP")
        for name, title in TITLES.items():
            print(f"  {name:<12}{title}")
    return 0


def _group(name: str) -> str:
    lines = [f"{TITLES[name]}:"]
    for flag in ROWS:
        if flag.group == name:
            lines += _lines(flag)
    if name == "nodes":
        known = ", ".join(platform.title for platform in platforms.REGISTRY)
        lines += ["", f"Without them, who takes part is read from the variables of {known}."]
    return "\n".join([*lines, ""])


def _lines(flag: Flag) -> list[str]:
    value = "" if flag.kind in SWITCH else f" {flag.metavar}"
    left = f"  {flag.short + ', ' if flag.short else ''}--{flag.name.replace('-', '_')}{value}"
    others = [f"--{alias.name.replace('-', '_')}" for alias in ALIASES if alias.of == flag.name]
    right = flag.help + (f" (also {', '.join(others)})" if others else "")
    words = wrap(right, 78 - COLUMN)
    if len(left) > COLUMN - 2:
        words.insert(0, "")
    return [f"{start:<{COLUMN}}{line}".rstrip() for start, line in zip_longest((left,), words, fillvalue="")]
