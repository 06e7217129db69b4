"""Adds settings from the platform's variables if the user did not specify the job's nodes."""

from flota.cli.flags import BY_NAME, ROLE_FLAGS
from flota.cli.parse import Given, store
from flota.cli.settings import Request, Settings
from flota.errors import Contradiction
from flota.platforms import Hints, Platform

# Flags that specify the job's nodes.
NODE_FLAGS = (
    *("nnodes", "master", "ips", "standalone", "rdzv_backend", "rdzv_endpoint", "master_addr", "master_port"),
    *ROLE_FLAGS,
)


def add_platform_settings(request: Request, platform: Platform, hints: Hints) -> Request:
    """Add the platform's values to the settings, and a note about them."""
    title, settings = platform.title, request.settings
    if not hints.role and hints.nodes <= 1:
        if [dest for dest in NODE_FLAGS if settings.source(dest)] == ["master"]:
            store(settings.given, BY_NAME["nnodes"], title, "1")  # the platform says what the user left out
        return request
    stronger = next(filter(None, map(settings.source, NODE_FLAGS)), "")
    if settings.tables:
        stronger = stronger or f"`roles` in {settings.tables_from}"
    if hints.role and not str(settings["run_mode"]).startswith("ps"):
        stronger = stronger or settings.source("run_mode")
    if stronger:
        ignored = f"role {hints.role}" if hints.role else f"{hints.nodes} nodes"
        note = f"{title}: {ignored} ignored because {stronger} is given"
    elif hints.problem:
        raise hints.problem
    elif hints.role:
        note = f"{title}: running the script once, as {hints.role}"
        settings = as_role(settings, title, hints)
    else:
        note = f"{title}: {hints.nodes} nodes, which join at {hints.master}"
        settings = as_node(settings, hints)
    line = request.line._replace(notes=(*request.line.notes, note))
    return request._replace(line=line, settings=settings)


def as_node(settings: Settings, hints: Hints) -> Settings:
    """Settings for one of several nodes."""
    given = dict(settings.given)
    store(given, BY_NAME["nnodes"], hints.source, str(hints.nodes))
    store(given, BY_NAME["master"], hints.source, hints.master)
    if not settings.source("rank"):
        store(given, BY_NAME["rank"], hints.rank_source, str(hints.rank))
    return Settings(given, ports=hints.ports)


def as_role(settings: Settings, title: str, hints: Hints) -> Settings:
    """Settings for a job of one worker. The platform sets its rank and addresses; flota sets only its own variables."""
    if settings["nproc_per_node"] not in (None, 1):
        asked = settings.spelled("nproc_per_node")
        raise Contradiction(asked, f"{hints.source}={hints.role}", f"a role of {title} is one worker")
    given = {dest: found for dest, found in settings.given.items() if found.source not in hints.not_settings}
    given.pop("run_mode", None)
    given.pop("nproc_per_node", None)
    frameworks = settings["framework"] if settings.source("framework") else ()
    given["framework"] = Given(tuple(name for name in frameworks if name != hints.framework), hints.source)
    return Settings(given, {hints.own_role: {}}, hints.source)
