"""Adds settings from the platform's variables if the user did not specify the job's nodes."""

from collections.abc import Mapping

from flota.cli.flags import BY_NAME, ROLE_FLAGS
from flota.cli.parse import Given, store
from flota.cli.settings import OTHER_TOOLS, Request, Settings, format_value, precedence
from flota.devices import KINDS
from flota.errors import Contradiction, NoFirstHost
from flota.job.roles import COLLECTIVE
from flota.platforms import Hints, Platform, find_platforms

# Flags that specify the job's nodes.
NODE_FLAGS = (
    *("nnodes", "master", "ips", "standalone", "rdzv_backend", "rdzv_endpoint", "master_addr", "master_port"),
    *ROLE_FLAGS,
)
LARGEST_FILE = 1 << 20


def read_platform(request: Request, environ: Mapping[str, str]) -> Request:
    """Add the settings of the first platform that is detected, if any."""
    found = find_platforms(environ, read_host_file)
    return add_platform_settings(request, *found[0]) if found else request


def read_host_file(path: str) -> str:
    """Return the content of a file that a platform names; empty if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read(LARGEST_FILE)
    except OSError:
        return ""


def add_platform_settings(request: Request, platform: Platform, hints: Hints) -> Request:
    """Add the platform's values to the settings, and a note about them."""
    title, settings, note = platform.title, request.settings, ""
    stronger = find_stronger(settings, platform, hints)
    several = bool(hints.role) or hints.nodes > 1 or bool(not hints.nodes and settings.source("nnodes"))
    if platform.flags and not hints.problem:
        settings = with_job(request, title, hints, settings)  # the flags are read already, with their own precedence
    elif stronger and (several or hints.problem):
        ignored = f"role {hints.role}" if hints.role else f"{hints.nodes} nodes" if hints.nodes > 1 else "its variables"
        note = f"{title}: {ignored} ignored because {stronger} is given"
        settings = with_run(settings, title, hints)
    elif hints.problem:
        raise hints.problem
    elif hints.role:
        note = f"{title}: running the script once, as {hints.role}"
        settings = as_role(settings, title, hints)
    elif several:
        settings = with_job(request, title, hints, as_node(settings, title, hints))
        if platform.one_console and not settings.source("shared_console"):
            store(settings.given, BY_NAME["shared-console"], title, "true")
        note = describe(title, hints, settings) + (f"; {hints.alone}" if hints.alone and hints.nodes else "")
    else:
        given = [dest for dest in NODE_FLAGS if settings.source(dest)]
        if given == ["master"] and hints.nodes == 1 and not hints.alone:
            store(settings.given, BY_NAME["nnodes"], title, "1")  # the platform says what the user left out
        note = f"{title}: {hints.alone}" if hints.alone and not stronger else ""
        names = names_nodes(settings)
        settings = with_run(settings, title, hints) if names else with_job(request, title, hints, settings)
    line = request.line._replace(notes=(*request.line.notes, *([note] if note else [])))
    return request._replace(line=line, settings=settings)


def find_stronger(settings: Settings, platform: Platform, hints: Hints) -> str:
    """Return what describes the job's nodes instead of the platform, if anything does."""
    given = [dest for dest in NODE_FLAGS if settings.source(dest) and settings.source(dest) not in platform.flags]
    stronger = next((settings.source(dest) for dest in given if not agrees(dest, settings, hints)), "")
    if settings.tables:
        stronger = stronger or f"`roles` in {settings.tables_from}"
    if hints.role and not str(settings["run_mode"]).startswith("ps"):
        stronger = stronger or settings.source("run_mode")
    return stronger


def names_nodes(settings: Settings) -> bool:
    """Whether the user describes a job of several machines. Its other nodes may be outside of the platform."""
    others = (settings.source(dest) for dest in NODE_FLAGS if dest not in ("nnodes", "standalone"))
    return settings["nnodes"] != (1, 1) or any(others)


def agrees(dest: str, settings: Settings, hints: Hints) -> bool:
    """Whether a flag leaves the rest to the platform: a number of nodes that fits, or another master."""
    if hints.role or hints.problem or hints.nodes == 1:
        return False
    if dest == "nnodes":
        least, most = settings["nnodes"]
        return bool(most > 1 and (not hints.nodes or least <= hints.nodes <= most + settings["spares"]))
    # Another launcher's variable may be for another job.
    return dest == "master" and precedence(settings.source(dest)) != OTHER_TOOLS


def describe(title: str, hints: Hints, settings: Settings) -> str:
    nodes, share = format_value("nnodes", settings["nnodes"]), hints.share
    if share:
        machines = f"{share.machines} machine{'s' * (share.machines > 1)}"
        return f"{title}: {nodes} tasks on {machines}, which join at {settings['master']}"
    return f"{title}: {nodes} nodes, which join at {settings['master']}"


def as_node(settings: Settings, title: str, hints: Hints) -> Settings:
    """Settings for one of several nodes."""
    given = dict(settings.given)
    if not settings.source("nnodes"):
        spares = settings["spares"]
        if spares and spares >= hints.nodes:
            raise Contradiction(settings.spelled("spares"), f"{title} with {hints.nodes} nodes", "no node would work")
        store(given, BY_NAME["nnodes"], hints.source, str(hints.nodes - spares))
    if not settings.source("master"):
        if not hints.master:
            raise NoFirstHost(title, hints.nodes or given["nnodes"].value[1])  # type: ignore[index]
        store(given, BY_NAME["master"], hints.master_source or hints.source, hints.master)
    if not settings.source("rank") and hints.rank >= 0:
        store(given, BY_NAME["rank"], hints.rank_source, str(hints.rank))
    return Settings(given, hints=hints)


def with_job(request: Request, title: str, hints: Hints, settings: Settings) -> Settings:
    """Add what the platform says about the job and this machine, as far as the user does not."""
    given = dict(settings.given)
    settings = with_run(Settings(given, settings.tables, settings.tables_from, hints), title, hints)
    for dest, value in (("job-id", hints.job_id), ("log-dir", hints.log_dir)):
        if value and not settings.source(BY_NAME[dest].dest):
            store(settings.given, BY_NAME[dest], hints.job_source, value)
    if hints.workers and counts_workers(request, settings, hints):
        store(settings.given, BY_NAME["nproc-per-node"], hints.workers_source, str(hints.workers))
    return settings


def counts_workers(request: Request, settings: Settings, hints: Hints) -> bool:
    """Whether the platform's number of workers is used. A list of visible devices is more precise."""
    special = request.line.script == "ipu" or settings["interactive"] or settings["run_mode"] != COLLECTIVE
    if special or settings.tables or any(map(settings.source, ("nproc_per_node", *ROLE_FLAGS))):
        return False
    listed = settings.source("devices") or any(name in request.environ for kind in KINDS for name in kind.variables)
    return bool(hints.share or not listed)


def with_run(settings: Settings, title: str, hints: Hints) -> Settings:
    """Add what is true even if the user describes the nodes: how often the platform has restarted this job, and how
    long it waits before it kills flota. Workers must be gone by then: otherwise nothing reports how they ended."""
    given = dict(settings.given)
    if hints.grace and not settings.source("grace"):
        store(given, BY_NAME["grace"], title, f"{hints.grace:g}")
    used = settings.hints or (Hints(restarts=hints.restarts) if hints.restarts else None)
    return Settings(given, settings.tables, settings.tables_from, used)


def as_role(settings: Settings, title: str, hints: Hints) -> Settings:
    """Settings for a job of one worker. The platform sets its rank and addresses; flota sets only its own variables."""
    if settings["nproc_per_node"] not in (None, 1):
        asked = settings.spelled("nproc_per_node")
        raise Contradiction(asked, f"{hints.source}={hints.role}", f"on {title}, a role runs a single worker")
    given = {dest: found for dest, found in settings.given.items() if found.source not in hints.not_settings}
    given.pop("run_mode", None)
    given.pop("nproc_per_node", None)
    frameworks = settings["framework"] if settings.source("framework") else ()
    given["framework"] = Given(tuple(name for name in frameworks if name != hints.framework), hints.source)
    return Settings(given, {hints.own_role: {}}, hints.source)
