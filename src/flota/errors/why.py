"""Errors of `flota why`."""

from __future__ import annotations

from flota.errors import FlotaError


class NoReport(FlotaError):
    def __init__(self, path: str) -> None:
        super().__init__(f"no job has left a report or events in `{path}`", "name its log directory: flota why LOG_DIR")
