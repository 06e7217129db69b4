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
    Subcommand("report", "[LOG_DIR …]", "print where the time of a job went"),
    Subcommand("stack", "[RANK …]", "print what each rank is waiting on"),
    Subcommand("ps", "[-a]", "list the running jobs"),
    Subcommand("logs", "[-f] [--rank RANKS]", "print the output of any ranks"),
    Subcommand("top", "[--job ID]", "show a running job on the terminal"),
    Subcommand("stop", "[--job ID]", "stop a running job"),
    Subcommand("restart", "[--job ID]", "restart the workers of a running job"),
    Subcommand("drain", "NODE", "let a node leave a running job"),
    Subcommand("dashboard", "[LOG_DIR]", "serve a page about a job"),
    Subcommand("platform", "[--json]", "print the platform and its settings"),
    Subcommand("submit", "ENGINE [OPTIONS] SCRIPT …", "start the job on a cluster"),
    Subcommand("completion", "bash|zsh|fish", "print a completion script for a shell"),
)


def find_subcommand(word: str) -> Callable[[list[str]], int] | None:
    if word not in [command.name for command in REGISTRY]:
        return None
    main: Callable[[list[str]], int] = __import__(f"flota.cli.commands.{word}", fromlist=["main"]).main
    return main
