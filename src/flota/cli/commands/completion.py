"""Shell completion: `flota completion bash|zsh|fish` prints a script made from the rows of flags and subcommands."""

from __future__ import annotations

from flota.cli.commands import REGISTRY
from flota.cli.convert import LEVELS
from flota.cli.flags import ALIASES, FLAGS, SWITCH, Flag
from flota.errors import BadValue
from flota.frameworks import REGISTRY as FRAMEWORKS

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
    makers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    if len(words) != 1 or words[0] not in makers:
        raise BadValue("flota completion", " ".join(words), "bash, zsh or fish", 'eval "$(flota completion bash)"')
    print(makers[words[0]](), end="")
    return 0


def _offered() -> list[tuple[str, Flag]]:
    """Every spelling that is not refused, with underscores, as Paddle's launchers have them."""
    rows = {flag.name: flag for flag in FLAGS if not flag.refused}
    named = [(flag.name, flag) for flag in rows.values()]
    named += [(alias.name, rows[alias.of]) for alias in ALIASES if alias.of in rows]
    return [(f"--{name.replace('-', '_')}", flag) for name, flag in named]


def _choices(flag: Flag) -> list[str]:
    if flag.kind.startswith("choice:"):
        return flag.kind[7:].split(",")
    return list({"level": LEVELS, "frameworks": FRAMEWORKS}.get(flag.kind, ()))


def _bash() -> str:
    cases = [
        f'    {name}) COMPREPLY=($(compgen -W "{" ".join(_choices(flag))}" -- "$word")); return;;'
        for name, flag in _offered()
        if _choices(flag)
    ]
    subcommands = " ".join(command.name for command in REGISTRY)
    flags = " ".join(name for name, _ in _offered())
    return BASH.format(cases="\n".join(cases), flags=flags, subcommands=subcommands)


def _zsh() -> str:
    rows = []
    for name, flag in _offered():
        text = flag.help.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " ")
        value = "" if flag.kind in SWITCH else f":{flag.metavar or 'value'}:({' '.join(_choices(flag))})"
        rows.append(f"    '{name}[{text}]{value}' \\")
    subcommands = " ".join(f"'{command.name}:{command.help}'" for command in REGISTRY)
    return ZSH.format(rows="\n".join(rows), subcommands=subcommands)


def _fish() -> str:
    lines = []
    for command in ("flota", "fleetrun"):
        first = f"complete -c {command} -n __fish_use_subcommand"
        lines += [f"{first} -a {subcommand.name} -d '{subcommand.help}'" for subcommand in REGISTRY]
        for name, flag in _offered():
            text = flag.help.replace("'", "")
            needs = "" if flag.kind in SWITCH else " -r"
            choices = f" -a '{' '.join(_choices(flag))}'" if _choices(flag) else ""
            lines.append(f"complete -c {command} -l {name[2:]}{needs}{choices} -d '{text}'")
    return "\n".join([*lines, ""])
