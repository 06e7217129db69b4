"""A function and its arguments, packed for interpreters that know nothing of this one; and files for what comes back.

All files are unlinked from the start: whoever is killed leaves nothing behind, and nobody waits for a reader.
"""

from __future__ import annotations

import io
import os
import pickle
import sys

from flota.cli.build_spec import absolute
from flota.errors import FlotaError
from flota.errors.spawning import CannotStartNode, DefinedInteractively, NotPicklable
from flota.spawning.worker_process import Inherited
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Parcel(NamedTuple):
    """What workers are sent: bytes, and the descriptors that these speak of."""

    content: bytes
    fds: tuple[int, ...]


class _Handover:
    """In the place of multiprocessing's own process object, while its queues, locks and shared memory are pickled."""

    DupFd = Inherited

    def __init__(self) -> None:
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        """Workers get it under the same number."""
        self.fds.append(fd)
        return fd


def pack(function: Callable[..., Any], args: tuple[Any, ...], *, with_rank: bool) -> Parcel:
    from multiprocessing import context, resource_tracker, spawn

    handover = _Handover()
    context.set_spawning_popen(handover)  # type: ignore[arg-type]
    try:
        absolute(os.curdir)  # says it if there is no such directory any more
        preparation = spawn.get_preparation_data("flota")
        importable = _can_import_main(preparation)
        cloudy, body = _pickle_call(function, args, importable=importable)
        tracker = resource_tracker._resource_tracker._fd  # type: ignore[attr-defined]  # noqa: SLF001
        preparation["tracker"] = tracker
        head = pickle.dumps(preparation) + pickle.dumps((cloudy, with_rank))
    finally:
        context.set_spawning_popen(None)
    fds = [*handover.fds, *([tracker] if tracker is not None else [])]
    return Parcel(head + body, tuple(dict.fromkeys(fds)))


def _can_import_main(preparation: dict[str, Any]) -> bool:
    """A notebook, a shell and `python -c` have a main module that is in no file."""
    path = preparation.get("init_main_from_path")
    if path is not None and not os.path.isfile(path):
        del preparation["init_main_from_path"]  # <stdin>
    return "init_main_from_name" in preparation or "init_main_from_path" in preparation


def _pickle_call(function: Callable[..., Any], args: tuple[Any, ...], *, importable: bool) -> tuple[bool, bytes]:
    """Whether cloudpickle was needed, and the pickle."""
    from multiprocessing.reduction import ForkingPickler

    name = getattr(function, "__qualname__", repr(function))
    cloudpickle = _find_cloudpickle()
    why = ""
    if importable or cloudpickle is None:
        pickler = ForkingPickler if importable else _for_strangers(ForkingPickler)
        try:
            return False, bytes(pickler.dumps((function, args)))
        except FlotaError:
            raise
        except Exception as error:  # whatever the objects' own code raises
            why = f"{type(error).__name__}: {error}"
    if cloudpickle is None:
        raise NotPicklable(name, why)
    from collections import ChainMap

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc, name-defined, unused-ignore]
        """cloudpickle knows functions, multiprocessing knows queues and locks, torch has taught the latter tensors."""

        dispatch_table = ChainMap(  # noqa: RUF012  as cloudpickle has it
            cloudpickle.CloudPickler.dispatch_table, ForkingPickler(io.BytesIO()).dispatch_table
        )

    buffer = io.BytesIO()
    try:
        Pickler(buffer).dump((function, args))
    except Exception as error:
        raise NotPicklable(name, f"{type(error).__name__}: {error}") from None
    return True, buffer.getvalue()


def _for_strangers(pickler: Any) -> Any:
    """A pickler for workers that cannot import the main module: it is said here, and not by an error in the worker."""
    from types import FunctionType

    class Pickler(pickler):  # type: ignore[misc]
        def reducer_override(self, thing: object) -> object:
            if isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__":
                raise DefinedInteractively(thing.__qualname__)
            return NotImplemented

    return Pickler


def _find_cloudpickle() -> Any:
    try:
        import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    return cloudpickle


def file_with(content: bytes) -> int:
    """A descriptor of a file without a name, in memory where the system can. Never one of a worker's standard three."""
    import fcntl
    import tempfile

    try:
        opened = os.fdopen(os.memfd_create("flota"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()
        with opened as file:
            file.write(content)
            file.flush()
            return fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError as error:
        raise CannotStartNode(error) from None


def files_with(contents: list[bytes]) -> list[int]:
    """All of them, or an error."""
    opened: list[int] = []
    try:
        for content in contents:
            opened.append(file_with(content))  # noqa: PERF401  those before a failing one must be known
    except FlotaError:
        close_all(opened)
        raise
    return opened


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def interpreter_command(body: str, *, bare: bool) -> tuple[str, ...]:
    """This interpreter, told to do `body`. `bare`: without site-packages' hooks and the user's variables."""
    from multiprocessing.util import _args_from_interpreter_flags  # type: ignore[attr-defined]

    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    flags = ["-I", "-S"] if bare else _args_from_interpreter_flags()
    path = [source, *(directory for directory in sys.path if directory != source)] if bare else [source]
    added = f"sys.path[:] = {path!r}" if bare else f"sys.path[:0] = {path!r}"
    return sys.executable, *flags, "-c", f"import sys; {added}; {body}"
