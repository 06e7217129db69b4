"""Subcommands: each is a file with `main(words) -> int` and a row in REGISTRY."""

from collections.abc import Callable

from flota.values import NamedTuple


class Subcommand(NamedTuple):
    """`name` is also the name of its file."""

    name: str
    arguments: str
    help: str


REGISTRY = (
    Subcommand("why", "[LOG_DIR …]", "print the report of the last job"),
    Subcommand("stack", "[RANK …]", "print what each rank is waiting on"),
    Subcommand("completion", "bash|zsh|fish", "print a completion script for a shell"),
)


def find_subcommand(word: str) -> Callable[[list[str]], int] | None:
    if word not in [command.name for command in REGISTRY]:
        return None
    main: Callable[[list[str]], int] = __import__(f"flota.cli.commands.{word}", fromlist=["main"]).main
    return main
