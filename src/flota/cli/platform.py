"""What the platform says, as settings. It is asked where nobody has said who takes part."""

from __future__ import annotations

from flota.cli.flags import BY_NAME, ROLE_FLAGS
from flota.cli.parse import CommandLine, Given, keep
from flota.cli.settings import Settings
from flota.errors import Contradiction
from flota.platforms import Hints, find_platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Whoever gives one of these has said who takes part.
WHO = (
    *("nnodes", "master", "ips", "standalone", "rdzv_backend", "rdzv_endpoint", "master_addr", "master_port"),
    *ROLE_FLAGS,
)


def ask_platform(line: CommandLine, settings: Settings, environ: Mapping[str, str]) -> tuple[CommandLine, Settings]:
    """The platform's words among the settings, and a note about it; `environ` is the whole environment."""
    found = find_platform(environ)
    if not found or not (found[1].role or found[1].nodes > 1):
        return line, settings  # a job on one machine is a job like any other
    title, hints = found[0].title, found[1]
    stronger = next(filter(None, map(settings.source, WHO)), "")
    if settings.tables:
        stronger = stronger or f"`roles` in {settings.tables_from}"
    if hints.role and not str(settings["run_mode"]).startswith("ps"):
        stronger = stronger or settings.source("run_mode")
    if stronger:
        said = f"the role {hints.role} for this node" if hints.role else f"{hints.nodes} nodes"
        return _with_note(line, f"{title} has {said}, but {stronger} is given and wins"), settings
    if hints.problem:
        raise hints.problem
    if hints.role:
        note = f"on {title}: runs the script once, as {hints.role}"
        return _with_note(line, note), as_role(settings, title, hints)
    note = f"on {title}: {hints.nodes} nodes, which meet at {hints.master}"
    return _with_note(line, note), as_node(settings, hints)


def as_node(settings: Settings, hints: Hints) -> Settings:
    """One of several nodes."""
    given = dict(settings.given)
    keep(given, BY_NAME["nnodes"], hints.source, str(hints.nodes))
    keep(given, BY_NAME["master"], hints.source, hints.master)
    if not settings.source("rank"):
        keep(given, BY_NAME["rank"], hints.rank_source, str(hints.rank))
    return Settings(given, ports=hints.ports)


def as_role(settings: Settings, title: str, hints: Hints) -> Settings:
    """A job of one worker, which has its place from the platform's own variables: flota adds none but its own."""
    if settings["nproc_per_node"] not in (None, 1):
        asked = settings.spelled("nproc_per_node")
        raise Contradiction(asked, f"{hints.source}={hints.role}", f"{title}'s role is for one worker")
    dropped = ("run_mode", "nproc_per_node")
    given = {
        dest: found
        for dest, found in settings.given.items()
        if dest not in dropped and found.source not in hints.not_settings
    }
    frameworks = settings["framework"] if settings.source("framework") else ()
    given["framework"] = Given(tuple(name for name in frameworks if name != hints.framework), hints.source)
    return Settings(given, {hints.own_role: {}}, hints.source)


def _with_note(line: CommandLine, note: str) -> CommandLine:
    return line._replace(notes=(*line.notes, note))
