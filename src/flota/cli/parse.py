"""Splits argv into flags, the script and the script's arguments, using the rows of flags.py."""

from __future__ import annotations

from flota import errors
from flota.cli.convert import convert, is_boolean
from flota.cli.flags import ALIAS_OF, ALIASES, BY_NAME, BY_SHORT, DEPRECATED, Flag, find_flag
from flota.values import NamedTuple

TYPO = 0.7  # how similar a misspelled flag is to the one that is meant
PER_NODE_FLAGS = ("rank", "host", "network-interface", "tls-cert", "tls-key", "srun")
ACCUMULATED = ("env", "paths")  # kinds of flags that can be repeated


class Given(NamedTuple):
    """A flag's value and where it came from."""

    value: object
    source: str


class CommandLine(NamedTuple):
    """Flags by destination, the script, and the script's arguments."""

    given: dict[str, Given]
    script: str | None
    args: tuple[str, ...]
    notes: tuple[str, ...]
    common: tuple[str, ...] = ()  # all words except flags that are specific to this node


def parse(
    words: list[str], rows: dict[str, Flag] = BY_NAME, not_common: tuple[str, ...] = PER_NODE_FLAGS
) -> CommandLine:
    """Flags end at the script: all words after it belong to the script. A `--` directly before or after the script is
    dropped, as torchrun does. `rows`: known flags by name. `not_common`: flags that other nodes do not get."""
    given: dict[str, Given] = {}
    notes: list[str] = []
    common: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        if not word.startswith("-") or word in ("-", "--"):
            break
        flag, spelled, value = find(word, rows)
        begins = position
        position += 1
        if value is None:
            value, used = _next_value(flag, spelled, words[position : position + 1], rows)
            position += used
        store(given, flag, spelled, value)
        if flag.name not in not_common and flag.name in BY_NAME:
            common += words[begins:position]
        notes += notes_for(flag, spelled)
    end = position
    if words[end : end + 1] == ["--"]:
        position += 1
    script, args = words[position] if words[position:] else None, words[position + 1 :]
    if args[:1] == ["--"]:
        del args[0]
    return CommandLine(given, script, tuple(args), tuple(notes), (*common, *words[end:]))


def find(word: str, rows: dict[str, Flag]) -> tuple[Flag, str, str | None]:
    """The row of a flag, the flag as spelled, and the value after its `=`, if any."""
    if not word.startswith("--"):
        flag = BY_SHORT.get(word[:2])
        if flag is None or flag.name not in rows:
            raise _unknown_flag(word, rows)
        return flag, word[:2], word[2:].removeprefix("=") or None
    spelled, equals, value = word.partition("=")
    flag = find_flag(spelled[2:], rows)
    if flag is None:
        raise _unknown(spelled, rows)
    return flag, spelled, value if equals else None


def _next_value(flag: Flag, spelled: str, words: list[str], rows: dict[str, Flag]) -> tuple[str, int]:
    """The value of a flag without `=`, and how many of `words` it used."""
    word = words[0] if words else "--"
    if flag.kind == "switch":
        return "true", 0
    if flag.kind == "bool":
        return (word, 1) if is_boolean(word) else ("true", 0)
    if flag.kind == "listen":
        return (word, 1) if word.rpartition(":")[2].isdecimal() else ("on", 0)
    if flag.kind == "help":
        return ("", 0) if word.startswith("-") else (word, 1)
    if not words or (word.startswith("--") and (flag.kind != "text" or find_flag(word.partition("=")[0][2:], rows))):
        raise errors.MissingValue(spelled, flag.metavar)
    return word, 1


def store(given: dict[str, Given], flag: Flag, source: str, word: str) -> None:
    """Store a flag's value. The last value wins, except that those of ACCUMULATED kinds add up.

    The error for a bad value names its source (flag, variable or key); the example always uses a flag.
    """
    spelled = source if source.startswith("-") else f"--{flag.dest}"
    try:
        value = convert(spelled, flag.kind, word)
    except errors.BadValue as error:
        error.message = error.message.replace(spelled, source, 1)
        raise
    if flag.refused and value != flag.default:
        raise errors.RefusedFlag(source, flag.refused)
    if flag.kind in ACCUMULATED and flag.dest in given:
        value = given[flag.dest].value + value  # type: ignore[operator]
    given[flag.dest] = Given(value, source)


def notes_for(flag: Flag, spelled: str) -> list[str]:
    name = spelled.lstrip("-").replace("_", "-")
    alias = ALIAS_OF.get(name)
    if alias and alias.deprecated:
        return [f"{spelled} is deprecated; use --{alias.of.replace('-', '_')}"]
    if name in DEPRECATED:
        return [f"{spelled} is deprecated; use --master HOST:PORT with --nnodes N"]
    return [f"{spelled} {flag.note}"] if flag.note else []


def _unknown(spelled: str, rows: dict[str, Flag]) -> errors.FlotaError:
    names = [known for known in _known(rows) if known.startswith(spelled.replace("_", "-"))]
    if names:
        return errors.AbbreviatedFlag(spelled, sorted(names))
    if find_flag(spelled[2:]):
        return errors.RefusedFlag(
            spelled, "it comes after `ipu`", f"put it before `ipu`, as in `flota {spelled} … ipu …`"
        )
    return _unknown_flag(spelled, rows)


def _known(rows: dict[str, Flag]) -> list[str]:
    return [f"--{name}" for name in (*rows, *(alias.name for alias in ALIASES if alias.of in rows))]


def _unknown_flag(word: str, rows: dict[str, Flag]) -> errors.UnknownFlag:
    """The hint is what to write instead of another launcher's flag, or a flag with a similar name."""
    from flota.cli.other_launchers import hint_for

    spelled = word.partition("=")[0]
    hint = hint_for(spelled) if rows is BY_NAME else ""
    names = [name.removeprefix("--") for name in _known(rows)]
    # Compared without dashes in front: these would make all short names similar.
    near = nearest(spelled.lstrip("-").replace("_", "-"), names, TYPO)
    return errors.UnknownFlag(word, f"--{near}" if near else "", hint)


def nearest(word: str, known: list[str], cutoff: float = 0.6) -> str:
    """The closest known word, or an empty string if none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1, cutoff)
    return near[0] if near else ""
