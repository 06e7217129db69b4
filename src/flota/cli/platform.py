"""What the platform says, as settings. It is asked where nobody has said who takes part."""

from __future__ import annotations

from flota.cli.flags import BY_NAME, ROLE_FLAGS
from flota.cli.parse import CommandLine, Given, keep
from flota.cli.settings import Settings
from flota.errors import BadPlatformValue, Contradiction
from flota.platforms import Hints, paddlecloud

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Whoever gives one of these has said who takes part.
WHO = (
    *("nnodes", "master", "ips", "standalone", "rdzv_backend", "rdzv_endpoint", "master_addr", "master_port"),
    *ROLE_FLAGS,
)
ROLES = {"PSERVER": "server", "TRAINER": "trainer", "HETER_TRAINER": "heter", "COORDINATOR": "coordinator"}


def ask_platform(line: CommandLine, settings: Settings, environ: Mapping[str, str]) -> tuple[CommandLine, Settings]:
    """The platform's words among the settings, and a note about it; `environ` is the whole environment."""
    said = paddlecloud.summary(environ)
    if not said:
        return line, settings
    stronger = next((source for source in map(settings.source, WHO) if source), None)
    if settings.tables:
        stronger = stronger or f"`roles` in {settings.tables_from}"
    if paddlecloud.role_of(environ) and not str(settings["run_mode"]).startswith("ps"):
        stronger = stronger or settings.source("run_mode")
    if stronger:
        return _with_note(line, f"PaddleCloud has {said}, but {stronger} is given and wins"), settings
    hints = paddlecloud.detect(environ)
    assert hints
    if hints.role:
        return _with_note(line, f"on PaddleCloud: runs the script once, as {hints.role}"), as_role(settings, hints)
    note = f"on PaddleCloud: {hints.nodes} nodes, which meet at {hints.master}"
    return _with_note(line, note), as_node(settings, hints)


def as_node(settings: Settings, hints: Hints) -> Settings:
    """One of several nodes; its address is read from POD_IP anyway."""
    given = dict(settings.given)
    keep(given, BY_NAME["nnodes"], hints.source, str(hints.nodes))
    keep(given, BY_NAME["master"], hints.source, hints.master)
    if not settings.source("rank"):
        keep(given, BY_NAME["rank"], "PADDLE_TRAINER_ID", str(hints.rank))
    return Settings(given, ports=hints.ports)


def as_role(settings: Settings, hints: Hints) -> Settings:
    """A job of one worker, which has its place from the platform's own variables: flota adds none but its own."""
    get: Any = settings.__getitem__
    if hints.role not in ROLES:
        raise BadPlatformValue("PaddleCloud", "TRAINING_ROLE", hints.role, f"one of {', '.join(ROLES)}")
    if get("nproc_per_node") not in (None, 1):
        asked = f"{settings.source('nproc_per_node')} {get('nproc_per_node')}"
        raise Contradiction(asked, f"TRAINING_ROLE={hints.role}", "PaddleCloud's role is for one worker")
    given = {dest: found for dest, found in settings.given.items() if dest != "run_mode" and found.source != "POD_IP"}
    frameworks = get("framework") if settings.source("framework") else ()
    given["framework"] = Given(tuple(name for name in frameworks if name != "paddle"), "TRAINING_ROLE")
    given.pop("nproc_per_node", None)
    return Settings(given, {ROLES[hints.role]: {}}, "TRAINING_ROLE")


def _with_note(line: CommandLine, note: str) -> CommandLine:
    return line._replace(notes=(*line.notes, note))
