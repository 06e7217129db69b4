"""Shell completion: `flota completion bash|zsh|fish` prints a script made from the rows of flags and subcommands."""

from flota.cli.commands import REGISTRY
from flota.cli.convert import LEVELS
from flota.cli.flags import ALIASES, FLAGS, SWITCH, Flag
from flota.errors import BadValue
from flota.frameworks import REGISTRY as FRAMEWORKS

USAGE = """\
usage: flota completion bash|zsh|fish

Print a completion script for a shell. To enable completion in bash, add this
line to ~/.bashrc:

  eval "$(flota completion bash)"
"""
Row = tuple[str, Flag, str]  # a flag's name without dashes, its row, and its possible values, if known
BASH = """\
_flota() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  case "$before" in
{cases}
  esac
  if [[ "$word" == --* ]]; then
    local flag="${{word#--}}"
    COMPREPLY=($(compgen -W "{flags}" -- "--${{flag//-/_}}"))
  elif [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "{flags}" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
    [[ $COMP_CWORD == 1 ]] && COMPREPLY+=($(compgen -W "{subcommands}" -- "$word"))
  fi
  return 0
}}
complete -o filenames -F _flota flota fleetrun
"""
ZSH = """\
#compdef flota fleetrun
_flota_first() {{
  local -a subcommands=({subcommands})
  _describe subcommand subcommands
  _files
}}
_flota() {{
  _arguments -S \\
{rows}
    '1:script:_flota_first' \\
    '*:its arguments:_files'
}}
compdef _flota flota fleetrun
"""


def main(words: list[str]) -> int:
    if {"-h", "--help"} & set(words):
        print(USAGE, end="")
        return 0
    makers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    if len(words) != 1 or words[0] not in makers:
        raise BadValue("flota completion", " ".join(words), "bash, zsh or fish", 'eval "$(flota completion bash)"')
    # All accepted names, with underscores as in Paddle's launchers.
    flags = {flag.name: flag for flag in FLAGS if not flag.refused}
    named = [*flags.items(), *((alias.name, flags[alias.of]) for alias in ALIASES if alias.of in flags)]
    print(makers[words[0]]([(name.replace("-", "_"), flag, _choices(flag)) for name, flag in named]), end="")
    return 0


def _choices(flag: Flag) -> str:
    if flag.kind.startswith("choice:"):
        return flag.kind[7:].replace(",", " ")
    return " ".join({"level": LEVELS, "frameworks": FRAMEWORKS}.get(flag.kind, ()))


def _bash(rows: list[Row]) -> str:
    case = '    --{}) COMPREPLY=($(compgen -W "{}" -- "$word")); return;;'
    cases = "\n".join(case.format(name, choices) for name, _, choices in rows if choices)
    subcommands = " ".join(command.name for command in REGISTRY)
    return BASH.format(cases=cases, flags=" ".join(f"--{name}" for name, _, _ in rows), subcommands=subcommands)


def _zsh(offered: list[Row]) -> str:
    rows = []
    for name, flag, choices in offered:
        text = flag.help.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " ")
        value = "" if flag.kind in SWITCH else f":{flag.metavar or 'value'}:({choices})"
        rows.append(f"    '--{name}[{text}]{value}' \\")
    subcommands = " ".join(f"'{command.name}:{command.help}'" for command in REGISTRY)
    return ZSH.format(rows="\n".join(rows), subcommands=subcommands)


def _fish(rows: list[Row]) -> str:
    lines = []
    for command in ("flota", "fleetrun"):
        first = f"complete -c {command} -n __fish_use_subcommand"
        lines += [f"{first} -a {subcommand.name} -d '{subcommand.help}'" for subcommand in REGISTRY]
        for name, flag, choices in rows:
            text = flag.help.replace("'", "")
            value = "" if flag.kind in SWITCH else " -r" + (f" -a '{choices}'" if choices else "")
            lines.append(f"complete -c {command} -l {name}{value} -d '{text}'")
    return "\n".join([*lines, ""])
