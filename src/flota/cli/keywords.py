"""Flags as a program gives them: keyword arguments, by the same rows and with the same words as the command's."""

from __future__ import annotations

from flota.cli.flags import ALIAS_OF, BY_NAME, find_flag
from flota.cli.parse import CommandLine, Given, keep, nearest, note_of
from flota.cli.settings import NEVER_IN_ENVIRONMENT, words_of
from flota.errors.spawning import BadOption, RefusedOption, UnknownOption

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REFUSED = (*NEVER_IN_ENVIRONMENT, "interactive")


def command_line(script: str, args: Sequence[object], keywords: Mapping[str, object]) -> CommandLine:
    """What the same words would be on a command line. None is as if it had not been given."""
    given: dict[str, Given] = {}
    notes: list[str] = []
    common: list[str] = []
    for name, value in keywords.items():
        flag = find_flag(name)
        if flag is None:
            known = (flag_name.replace("-", "_") for flag_name in (*BY_NAME, *ALIAS_OF))
            raise UnknownOption("launch", name, nearest(name, known))
        if flag.dest in REFUSED:
            raise RefusedOption(name, "it is for people at a terminal", f"run `flota --{flag.name}` there")
        if value is None:
            continue
        if isinstance(value, dict) and flag.kind != "env":
            raise RefusedOption(name, "of all flags env alone takes a dictionary", "give a text, a number or a list")
        spelled = f"--{name}"
        for word in words_of(value, one_each=flag.kind == "env"):
            keep(given, flag, spelled, word)
            common += [f"{spelled}={word}"]
        notes += note_of(flag, spelled)
    if isinstance(args, (str, bytes)) or not hasattr(args, "__iter__"):
        raise BadOption("args", args, "a list of words", f"args=[{args!r}]")
    words = tuple(str(arg) for arg in args)
    if any("\0" in word for word in words):
        raise BadOption("args", args, "words without a null character", 'args=["--lr", 0.1]')
    return CommandLine(given, script, words, tuple(notes), (*common, script, *words))
