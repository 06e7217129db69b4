"""Pickles a function and its arguments for new interpreters, and creates the files and command lines to start them.

The files are anonymous: a killed process leaves nothing behind, and no writer waits for a reader.
"""

import io
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from flota.cli.build_spec import absolute
from flota.errors import FlotaError
from flota.errors.spawning import DefinedInteractively, NotPicklable


class _FdCollector:
    """Replaces the process object of multiprocessing while its queues, locks and shared memory are pickled."""

    def __init__(self) -> None:
        from multiprocessing.popen_spawn_posix import _DupFd

        self.DupFd = _DupFd
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        """Record a descriptor, which workers inherit under the same number, as _DupFd expects."""
        self.fds.append(fd)
        return fd


def pickle_call(function: Callable[..., Any], args: tuple[Any, ...], *, with_rank: bool) -> tuple[bytes, list[int]]:
    """Return the pickle, and the descriptors of queues, locks and so on that workers inherit."""
    from multiprocessing import context, resource_tracker, spawn

    collector = _FdCollector()
    context.set_spawning_popen(collector)  # type: ignore[arg-type]
    try:
        absolute(os.curdir)  # raises if the directory no longer exists
        preparation = spawn.get_preparation_data("flota")
        pickler, body = _pickle(function, args, importable=_can_import_main(preparation))
        tracker = resource_tracker._resource_tracker._fd  # type: ignore[attr-defined]  # noqa: SLF001
        preparation.update(tracker=tracker, pickler=pickler, with_rank=with_rank)
        head = pickle.dumps(preparation)
    finally:
        context.set_spawning_popen(None)
    fds = [*collector.fds, *([tracker] if tracker is not None else [])]
    return head + body, list(dict.fromkeys(fds))


def _can_import_main(preparation: dict[str, Any]) -> bool:
    """Whether workers can import the main module. In a notebook, a shell and `python -c` it is not in a file."""
    path = preparation.get("init_main_from_path")
    if path is not None and not os.path.isfile(path):
        del preparation["init_main_from_path"]  # <stdin>
    return "init_main_from_name" in preparation or "init_main_from_path" in preparation


def _pickle(function: Callable[..., Any], args: tuple[Any, ...], *, importable: bool) -> tuple[str, bytes]:
    """Return the name of the pickler that succeeded, and the pickle."""
    from multiprocessing.reduction import ForkingPickler

    cloud = _cloud_pickler(ForkingPickler)
    picklers: dict[str, Any] = {}
    if importable or cloud is None:
        picklers["pickle"] = ForkingPickler if importable else _without_main(ForkingPickler)
    if cloud is not None:
        picklers["cloudpickle"] = cloud
    why = ""
    for name, pickler in picklers.items():
        buffer = io.BytesIO()
        try:
            pickler(buffer).dump((function, args))
            return name, buffer.getvalue()
        except FlotaError:
            raise
        except Exception as error:  # the code of the pickled objects may raise anything
            why = f"{type(error).__name__}: {error}"
    raise NotPicklable(getattr(function, "__qualname__", repr(function)), why)


def _without_main(base: Any) -> Any:
    """Return a pickler for workers that cannot import the main module: the error is raised here, not in the worker."""
    from types import FunctionType

    class PicklerWithoutMain(base):  # type: ignore[misc]
        def reducer_override(self, thing: object) -> object:
            if isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__":
                raise DefinedInteractively(thing.__qualname__)
            return NotImplemented

    return PicklerWithoutMain


def _cloud_pickler(base: Any) -> Any:
    """Return a pickler for functions (cloudpickle) and for queues, locks and torch's tensors (multiprocessing); None if
    cloudpickle is not installed."""
    try:
        import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    from collections import ChainMap

    class CloudPickler(cloudpickle.CloudPickler):  # type: ignore[misc, name-defined, unused-ignore]
        dispatch_table = ChainMap(  # noqa: RUF012  as in cloudpickle
            cloudpickle.CloudPickler.dispatch_table, base(io.BytesIO()).dispatch_table
        )

    return CloudPickler


def anonymous_file(owner: ExitStack, content: bytes = b"") -> int:
    """Create a file without a name, in memory if possible, and return its descriptor, which is greater than 2.
    `owner` closes it."""
    import fcntl
    import tempfile

    opened = os.fdopen(os.memfd_create("flota"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()
    with opened as file:
        file.write(content)
        file.flush()
        fd = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
    owner.callback(os.close, fd)
    return fd


def interpreter_command(body: str, *, bare: bool) -> tuple[str, ...]:
    """Return a command line that runs `body` in this interpreter. `bare`: isolated, and without importing `site`."""
    from multiprocessing.util import _args_from_interpreter_flags  # type: ignore[attr-defined]

    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    flags = ["-I", "-S"] if bare else _args_from_interpreter_flags()
    path = [source, *(directory for directory in sys.path if directory != source and bare)]
    return sys.executable, *flags, "-c", f"import sys; sys.path[{':' if bare else ':0'}] = {path!r}; {body}"
