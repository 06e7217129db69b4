"""Whether this process can show the live view: `flota top`, `flota --view`."""

from __future__ import annotations

import os
from importlib.util import find_spec

from flota.errors import NeedsTerminal, NeedsTextual


def require_view(wanted_by: str) -> None:
    if find_spec("textual") is None:
        raise NeedsTextual(wanted_by)
    if not all(map(os.isatty, (0, 1, 2))) or os.environ.get("TERM", "dumb") == "dumb":
        raise NeedsTerminal(wanted_by)
