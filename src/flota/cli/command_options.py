"""Parses the options of subcommands."""

from __future__ import annotations

from flota.errors import MissingValue, TooManyWords, UnknownFlag
from flota.values import NamedTuple

HELP = ("-h", "--help")
WITH_VALUE = ("--job", "--at")  # options of every command about a running job
ANY = 1 << 30  # words


class Options(NamedTuple):
    """`given`: options with a value, by name; `switches`: options without; `words`: all other words."""

    given: dict[str, str]
    switches: frozenset[str]
    words: tuple[str, ...]

    @property
    def json(self) -> bool:
        return "--json" in self.switches


def read_command(
    words: list[str], usage: str, with_value: tuple[str, ...], switches: tuple[str, ...] = (), most_words: int = 0
) -> Options | None:
    """The options of a command. None: its usage was asked for, and is printed."""
    options = read_options(words, with_value, (*HELP, *switches))
    if options.switches & {*HELP}:
        print(usage, end="")
        return None
    if len(options.words) > most_words:
        raise TooManyWords(options.words[most_words], usage.partition("\n")[0].removeprefix("usage: "))
    return options


def read_options(words: list[str], with_value: tuple[str, ...], switches: tuple[str, ...]) -> Options:
    """Raises UnknownFlag and MissingValue. Underscores may be used for dashes. With a name in both lists, a value
    is optional, and follows `=`."""
    given: dict[str, str] = {}
    found: set[str] = set()
    others: list[str] = []
    following = iter(words)
    for word in following:
        name, equals, value = word.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name in with_value and (equals or name not in switches):
            given[name] = value if equals else next(following, "")
            if not given[name]:
                raise MissingValue(name, "")
        elif name in switches and not equals:
            found.add(name)
        elif word.startswith("-") and word != "-":
            raise UnknownFlag(word, f"one of {', '.join(sorted((*with_value, *switches)))}")
        else:
            others.append(word)
    return Options(given, frozenset(found), tuple(others))
