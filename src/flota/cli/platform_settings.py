"""What the platform says, as settings. It is asked where nobody has said who takes part."""

from flota.cli.flags import BY_NAME, ROLE_FLAGS
from flota.cli.parse import Given, keep
from flota.cli.settings import Request, Settings
from flota.errors import Contradiction
from flota.platforms import Hints, Platform

# A user who gives one of these has said which nodes take part.
WHO = (
    *("nnodes", "master", "ips", "standalone", "rdzv_backend", "rdzv_endpoint", "master_addr", "master_port"),
    *ROLE_FLAGS,
)


def add_hints(request: Request, platform: Platform, hints: Hints) -> Request:
    """The platform's words among the settings, and a note about it."""
    if not hints.role and hints.nodes <= 1:
        return request  # a job on one machine is a job like any other
    title, settings = platform.title, request.settings
    stronger = next(filter(None, map(settings.source, WHO)), "")
    if settings.tables:
        stronger = stronger or f"`roles` in {settings.tables_from}"
    if hints.role and not str(settings["run_mode"]).startswith("ps"):
        stronger = stronger or settings.source("run_mode")
    if stronger:
        said = f"the role {hints.role} for this node" if hints.role else f"{hints.nodes} nodes"
        note = f"{title} has {said}, but {stronger} is given and wins"
    elif hints.problem:
        raise hints.problem
    elif hints.role:
        note = f"on {title}: runs the script once, as {hints.role}"
        settings = as_role(settings, title, hints)
    else:
        note = f"on {title}: {hints.nodes} nodes, which meet at {hints.master}"
        settings = as_node(settings, hints)
    line = request.line._replace(notes=(*request.line.notes, note))
    return request._replace(line=line, settings=settings)


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
    given = {dest: found for dest, found in settings.given.items() if found.source not in hints.not_settings}
    given.pop("run_mode", None)
    given.pop("nproc_per_node", None)
    frameworks = settings["framework"] if settings.source("framework") else ()
    given["framework"] = Given(tuple(name for name in frameworks if name != hints.framework), hints.source)
    return Settings(given, {hints.own_role: {}}, hints.source)
