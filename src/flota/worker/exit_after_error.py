"""Ends a worker of JAX that has raised. At exit JAX waits up to five minutes until the other processes exit too, and
those wait for this one in a collective."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

EXIT_TIMEOUT = 5.0  # seconds for what else the script has registered with atexit


def exit_after_error() -> None:
    """Let this process exit with 1, as Python does, soon after an uncaught exception."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        previous(kind, error, traceback)
        if _is_connected():
            import faulthandler

            # A timer in native code: it works although the main thread waits there. What it writes is not needed.
            faulthandler.dump_traceback_later(EXIT_TIMEOUT, exit=True, file=os.open(os.devnull, os.O_WRONLY))

    sys.excepthook = hook


def _is_connected() -> bool:
    """Whether JAX would wait for the others. Versions of JAX that do not say it are left alone."""
    is_initialized = getattr(getattr(sys.modules.get("jax"), "distributed", None), "is_initialized", None)
    return bool(is_initialized and is_initialized())
