"""Words in the script's place: a subcommand is a file with `main(words) -> int`, and a row in REGISTRY."""

from collections.abc import Callable

from flota.values import NamedTuple


class Subcommand(NamedTuple):
    """The name is the file's, too."""

    name: str
    arguments: str
    help: str


REGISTRY = (
    Subcommand("why", "[LOG_DIR …]", "how a job ended, once more"),
    Subcommand("stack", "[RANK …]", "where the ranks of a running job stand"),
    Subcommand("completion", "bash|zsh|fish", "a completion script for the shell"),
)


def find_subcommand(word: str) -> Callable[[list[str]], int] | None:
    if word not in [command.name for command in REGISTRY]:
        return None
    main: Callable[[list[str]], int] = __import__(f"flota.cli.commands.{word}", fromlist=["main"]).main
    return main
