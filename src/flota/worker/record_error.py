"""Writes a failed script's traceback to the file that its launcher reads, in torch's format.

Used as `@flota.record` on a main function, or as `flota.record()` at the top of a script.
"""

from __future__ import annotations

import os
import sys

from flota.errors.worker import NothingToRecord, summarize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any, TypeVar, overload

    Function = TypeVar("Function", bound=Callable[..., Any])

_previous: list[Any] = []  # the excepthook before ours

if TYPE_CHECKING:

    @overload
    def record(function: Function) -> Function: ...
    @overload
    def record(function: None = None) -> Callable[[Function], Function]: ...


def record(function: Any = None) -> Any:
    """Record the exceptions of a function; without a function, record an uncaught exception of the script."""
    if function is None:
        if not _previous:
            _previous.append(sys.excepthook)
            sys.excepthook = _hook
        return record  # so that `@flota.record()` works as well
    if not callable(function):
        raise NothingToRecord(function)
    return _recorded(function)


def _recorded(function: Function) -> Function:
    from functools import wraps

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            # The first frame is this wrapper's: omit it.
            write_error(error, error.__traceback__ and error.__traceback__.tb_next)
            raise

    return call  # type: ignore[return-value]


def _hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    # Ctrl-C is not a failure of the script; SystemExit does not reach the hook.
    if isinstance(error, Exception):
        write_error(error, traceback)
    _previous[0](kind, error, traceback)


def write_error(error: Exception, traceback: TracebackType | None) -> None:
    """Write the file atomically. A failure to write it must not hide the error itself."""
    path = error_file(os.environ)
    if not path:
        return
    import json
    from time import time
    from traceback import format_exception

    message = {
        "message": summarize(error),
        "extraInfo": {
            "py_callstack": "".join(format_exception(type(error), error, traceback)),
            "timestamp": str(int(time())),
        },
    }
    part = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        _remove(part)
        with open(part, "x") as file:
            json.dump({"message": message}, file)
        os.replace(part, path)
    except OSError as failure:
        sys.stderr.write(f"flota.record: cannot write {path}: {failure.strerror}\n")
        _remove(part)  # on a full disk it is incomplete


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def error_file(environ: Mapping[str, str]) -> str:
    """Return the file that the launcher reads; empty if none. flota also reads it without torch's variables."""
    if "TORCHELASTIC_ERROR_FILE" in environ or "FLOTA_LOG_DIR" not in environ:
        return environ.get("TORCHELASTIC_ERROR_FILE", "")
    role, rank = environ.get("FLOTA_ROLE", "trainer"), environ.get("FLOTA_RANK", "0")
    own = rank if role == "trainer" else f"{role}.{rank}"
    return f"{environ['FLOTA_LOG_DIR']}/error.{own}.json"
