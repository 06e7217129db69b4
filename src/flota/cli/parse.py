"""argv to given flags and the script: one loop over the rows of flags.py."""

from __future__ import annotations

from flota.cli.convert import convert, is_boolean
from flota.cli.flags import ALIAS_OF, BY_NAME, BY_SHORT, DEPRECATED, Alias, Flag
from flota.errors import AbbreviatedFlag, BadValue, MissingValue, RefusedFlag, UnknownFlag
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ONE_NODES_OWN = ("rank", "host", "network-interface", "tls-cert", "tls-key")


class Given(NamedTuple):
    """A flag's value and where it came from."""

    value: object
    source: str


class Rows(NamedTuple):
    """The flags that are known at one place of the command line."""

    by_name: dict[str, Flag]
    by_short: dict[str, Flag]
    alias_of: dict[str, Alias]


EVERY = Rows(BY_NAME, BY_SHORT, ALIAS_OF)


class CommandLine(NamedTuple):
    """What the user typed: flags by destination, the script, and the script's own words."""

    given: dict[str, Given]
    script: str | None
    args: tuple[str, ...]
    notes: tuple[str, ...]
    common: tuple[str, ...] = ()  # all words but those that are meant for this node alone


def parse(words: list[str], rows: Rows = EVERY) -> CommandLine:
    """Flags end at the script: what follows is the script's, always."""
    given: dict[str, Given] = {}
    notes: list[str] = []
    common: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            position += 1
            break
        if not word.startswith("-") or word == "-":
            break
        flag, spelled, value = find(word, rows)
        begins = position
        position += 1
        if value is None:
            value, used = _following(flag, spelled, words, position, rows)
            position += used
        keep(given, flag, spelled, value)
        if flag.name not in ONE_NODES_OWN:
            common += words[begins:position]
        notes += note_of(flag, spelled)
    rest = words[position:]
    return CommandLine(given, rest[0] if rest else None, tuple(rest[1:]), tuple(notes), (*common, *rest))


def find(word: str, rows: Rows) -> tuple[Flag, str, str | None]:
    """The row of a flag word, the word as spelled, and the value behind its `=`, if any."""
    if not word.startswith("--"):
        flag = rows.by_short.get(word[:2])
        if flag is None:
            raise UnknownFlag(word, _nearest(word, rows))
        return flag, word[:2], word[2:].removeprefix("=") or None
    spelled, equals, value = word.partition("=")
    name = spelled[2:].replace("_", "-")
    alias = rows.alias_of.get(name)
    flag = rows.by_name.get(alias.of if alias else name)
    if flag is None:
        _refuse_unknown(spelled, name, rows)
    assert flag is not None
    return flag, spelled, value if equals else None


def _following(flag: Flag, spelled: str, words: list[str], position: int, rows: Rows) -> tuple[str, int]:
    """The value that stands in the next word, and whether it was used up."""
    word = words[position] if position < len(words) else None
    if flag.kind == "switch":
        return "true", 0
    if flag.kind == "bool":
        return (word, 1) if word is not None and is_boolean(word) else ("true", 0)
    if flag.kind == "help":
        return (word, 1) if word is not None and not word.startswith("-") else ("", 0)
    if word is None or (word.startswith("--") and (flag.kind != "text" or _is_flag(word, rows))):
        raise MissingValue(spelled, flag.metavar)
    return word, 1


def _is_flag(word: str, rows: Rows) -> bool:
    name = word.partition("=")[0][2:].replace("_", "-")
    return name in rows.by_name or name in rows.alias_of


def keep(given: dict[str, Given], flag: Flag, source: str, word: str) -> None:
    """Note a flag's value; a flag given twice counts as last given, but --env adds up."""
    value = word if flag.kind == "help" else _convert(flag, source, word)
    if flag.refused and value != flag.default:
        raise RefusedFlag(source, flag.refused)
    if flag.kind == "env" and flag.dest in given:
        value = given[flag.dest].value + value  # type: ignore[operator]
    given[flag.dest] = Given(value, source)


def _convert(flag: Flag, source: str, word: str) -> object:
    """The value; a bad one is named by its source, a variable or a key, with a flag as the example."""
    spelled = source if source.startswith("-") else f"--{flag.dest}"
    try:
        return convert(spelled, flag.kind, word)
    except BadValue as error:
        error.message = error.message.replace(spelled, source, 1)
        raise


def note_of(flag: Flag, spelled: str) -> list[str]:
    name = spelled.lstrip("-").replace("_", "-")
    alias = ALIAS_OF.get(name)
    if alias and alias.deprecated:
        return [f"{spelled} is an old name of --{alias.of.replace('-', '_')}"]
    if name in DEPRECATED:
        return [f"{spelled} is deprecated; --master HOST:PORT with --nnodes N takes its place"]
    return [f"{spelled} {flag.note}"] if flag.note else []


def _refuse_unknown(spelled: str, name: str, rows: Rows) -> None:
    names = [known for known in (*rows.by_name, *rows.alias_of) if known.startswith(name)]
    if names:
        raise AbbreviatedFlag(spelled, [f"--{known}" for known in sorted(names)])
    if name in BY_NAME or name in ALIAS_OF:
        raise RefusedFlag(spelled, "it stands behind `ipu`", f"put it before, as in `flota {spelled} … ipu …`")
    raise UnknownFlag(spelled, _nearest(spelled, rows))


def _nearest(spelled: str, rows: Rows) -> str:
    return nearest(spelled.replace("_", "-"), [f"--{known}" for known in (*rows.by_name, *rows.alias_of)])


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """What somebody may have meant; empty where nothing is like it."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1, likeness)
    return near[0] if near else ""
