"""--help: the most used flags and the groups on one screen, and one page per group, from the rows of flags.py."""

from itertools import zip_longest
from textwrap import wrap

from flota import frameworks, platforms
from flota.cli.commands import REGISTRY as SUBCOMMANDS
from flota.cli.flags import ALIASES, BY_NAME, FLAGS, GROUPS, SWITCH, Flag
from flota.cli.ipu import IPU_FLAGS
from flota.errors import BadValue

FIRST = (
    *("nproc-per-node", "devices", "log-dir", "console", "nnodes"),
    *("master", "max-restart", "hang-timeout", "warm", "dry-run"),
)
EXAMPLES = (
    ("flota train.py --lr 0.1", "one worker per visible device"),
    ("flota --nproc_per_node 4 train.py", "four workers"),
    ("flota --devices 2,3 train.py", "two workers, on these two devices"),
    ("flota --max_restart 3 train.py", "restart all workers when one fails"),
    ("flota -m package.train --epochs 3", "run a module"),
    ("flota --no_python ./train.sh", "run a program that is not Python"),
)
COLUMN = 24
GROUP_COLUMN = 40
WIDTH = 80
ROWS = (*FLAGS, *IPU_FLAGS)
TITLES = {**GROUPS, "ipu": "jobs on IPUs"}
USAGE = """\
usage: {program} [FLAGS] SCRIPT [ARGUMENTS]
       flota COMMAND [ARGUMENTS]    for example flota ps; all are listed below

{purpose}
"""
PURPOSE = "Run a training script on many devices or machines; watch and restart it."
TORCH_LAUNCH_PURPOSE = """\
Run a training script as torch.distributed.launch does: flota inserts
--local-rank=N before the script's arguments unless --use_env is given."""


def print_help(group: str, *, torch_launch: bool = False) -> int:
    if group == "all":
        print(overview(torch_launch=torch_launch))
        for name in TITLES:
            print(_group(name))
    elif group in TITLES:
        print(_group(group), end="")
    elif group:
        raise BadValue("--help", group, f"one of all, {', '.join(TITLES)}", "flota --help workers")
    else:
        print(overview(torch_launch=torch_launch), end="")
        print(examples("python -m flota.torch_launch" if torch_launch else "flota"), end="")
    return 0


def overview(*, torch_launch: bool = False) -> str:
    """At most 24 lines of 80 columns."""
    usage = USAGE.format(
        program="python -m flota.torch_launch" if torch_launch else "flota",
        purpose=TORCH_LAUNCH_PURPOSE if torch_launch else PURPOSE,
    )
    first = [line for name in FIRST for line in _lines(BY_NAME[name], with_aliases=False)]
    groups = [f"  {name:<10}{title}" for name, title in TITLES.items()]
    half = (len(groups) + 1) // 2
    pairs = zip_longest(groups[:half], groups[half:], fillvalue="")
    rows = [f"{left:<{GROUP_COLUMN}}{right}".rstrip() for left, right in pairs]
    return "\n".join([usage, *first, "", "More flags: flota --help GROUP, or --help all", *rows, ""])


def examples(program: str) -> str:
    titles = [frameworks.load(name).title for name in frameworks.REGISTRY]
    lines = [_example(command.replace("flota", program, 1), text) for command, text in EXAMPLES]
    notes = (
        f"Workers get the variables of {', '.join(titles[:-1])} and {titles[-1]}. Flags go before the script; --a-b "
        "and --a_b are the same. Most flags can also be set by an environment variable (FLOTA_LOG_DIR) or in "
        'flota.toml (log_dir = "out").'
    )
    usages = [(f"flota {command.name} {command.arguments}", command.help) for command in SUBCOMMANDS]
    commands = [_example(usage, text) for usage, text in usages]
    return "\n".join(["", "Examples:", *lines, "", "Commands:", *commands, "", *wrap(notes, WIDTH), ""])


def _example(command: str, text: str) -> str:
    end = "\n" + " " * GROUP_COLUMN if len(command) > GROUP_COLUMN - 4 else ""
    return f"  {command + end:<{GROUP_COLUMN - 2}}{text}"


def _group(name: str) -> str:
    lines = [f"{TITLES[name]}:"]
    for flag in ROWS:
        if flag.group == name:
            lines += _lines(flag)
    if name == "nodes":
        *known, last = (platform.title for platform in platforms.REGISTRY)
        note = f"On {', '.join(known)} and {last}, flota reads these settings from the platform's variables"
        note += " if no flag specifies the nodes."
        lines += ["", *wrap(note, WIDTH)]
    return "\n".join([*lines, ""])


def _lines(flag: Flag, *, with_aliases: bool = True) -> list[str]:
    value = "" if flag.kind in SWITCH else f" {flag.metavar}"
    left = f"  {flag.short + ', ' if flag.short else ''}--{flag.name.replace('-', '_')}{value}"
    others = [f"--{alias.name.replace('-', '_')}" for alias in ALIASES if alias.of == flag.name and with_aliases]
    right = flag.help + (f" (also {', '.join(others)})" if others else "")
    words = wrap(right, WIDTH - COLUMN)
    if len(left) > COLUMN - 2:
        words.insert(0, "")
    return [f"{start:<{COLUMN}}{line}".rstrip() for start, line in zip_longest((left,), words, fillvalue="")]
