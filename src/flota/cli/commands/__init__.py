"""Subcommands: each is a function `(words) -> int` in a file of this package, and a row in REGISTRY."""

from collections.abc import Callable

from flota.values import NamedTuple


class Subcommand(NamedTuple):
    """`file`: a file with one function for each of several subcommands; by default a file of its own with `main`."""

    name: str
    arguments: str
    help: str
    file: str = ""


REGISTRY = (
    Subcommand("why", "[LOG_DIR …]", "print the report of the last job"),
    Subcommand("report", "[LOG_DIR …]", "print where the time of a job went"),
    Subcommand("stack", "[RANK …]", "print what each rank is waiting on"),
    Subcommand("ps", "[-a]", "list the running jobs"),
    Subcommand("logs", "[-f] [--rank RANKS]", "print the output of any ranks"),
    Subcommand("top", "[--job ID]", "show a running job on the terminal"),
    Subcommand("stop", "[--job ID]", "stop a running job", "act_on_job"),
    Subcommand("restart", "[--job ID]", "restart the workers of a running job", "act_on_job"),
    Subcommand("drain", "NODE", "let a node leave a running job", "act_on_job"),
    Subcommand("dashboard", "[LOG_DIR]", "serve a page about a job"),
    Subcommand("platform", "[--json]", "print the platform and its settings"),
    Subcommand("submit", "ENGINE [OPTIONS] SCRIPT …", "start the job on a cluster"),
    Subcommand("completion", "bash|zsh|fish", "print a completion script for a shell"),
)


def find_subcommand(word: str) -> Callable[[list[str]], int] | None:
    for name, _, _, file in REGISTRY:
        if name == word:
            module = __import__(f"flota.cli.commands.{file or name}", fromlist=["main"])
            main: Callable[[list[str]], int] = getattr(module, name if file else "main")
            return main
    return None
