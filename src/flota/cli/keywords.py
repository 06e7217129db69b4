"""Flags as a program gives them: keyword arguments, by the same rows and with the same words as the command's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flota.cli.flags import ALIAS_OF, BY_NAME, find_flag
from flota.cli.parse import CommandLine, nearest, parse
from flota.cli.settings import NEVER_IN_ENVIRONMENT, words_of
from flota.errors.spawning import BadOption, RefusedOption, UnknownOption

REFUSED = (*NEVER_IN_ENVIRONMENT, "interactive")


def command_line(script: str, args: Sequence[object], keywords: Mapping[str, object]) -> CommandLine:
    """What the same words would be on a command line. None is as if it had not been given."""
    flags: list[str] = []
    for name, value in keywords.items():
        flag = find_flag(name)
        if flag is None:
            known = [flag_name.replace("-", "_") for flag_name in (*BY_NAME, *ALIAS_OF)]
            raise UnknownOption("launch", name, nearest(name, known))
        if flag.dest in REFUSED:
            raise RefusedOption(name, "it is for people at a terminal", f"run `flota --{flag.name}` there")
        if isinstance(value, dict) and flag.kind != "env":
            raise RefusedOption(name, "of all flags env alone takes a dictionary", "give a text, a number or a list")
        if value is not None:
            flags += [f"--{name}={word}" for word in words_of(value, one_each=flag.kind == "env")]
    if isinstance(args, (str, bytes)) or not hasattr(args, "__iter__"):
        raise BadOption("args", args, "a list of words", f"args=[{args!r}]")
    words = [str(arg) for arg in args]
    if any("\0" in word for word in words):
        raise BadOption("args", args, "words without a null character", 'args=["--lr", 0.1]')
    return parse([*flags, "--", script, *words])
