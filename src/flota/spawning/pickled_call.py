"""A function and its arguments, pickled for new interpreters; the files and the command line that they start with.

All files are unlinked from the start: a killed process leaves nothing behind, and no writer waits for a reader.
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
    """In the place of multiprocessing's own process object, while its queues, locks and shared memory are pickled."""

    def __init__(self) -> None:
        from multiprocessing.popen_spawn_posix import _DupFd

        self.DupFd = _DupFd
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        """Workers inherit it under the same number, which is what _DupFd stands for."""
        self.fds.append(fd)
        return fd


def pickle_call(function: Callable[..., Any], args: tuple[Any, ...], *, with_rank: bool) -> tuple[bytes, list[int]]:
    """The pickle, and the descriptors of queues, locks and the like, which workers inherit."""
    from multiprocessing import context, resource_tracker, spawn

    collector = _FdCollector()
    context.set_spawning_popen(collector)  # type: ignore[arg-type]
    try:
        absolute(os.curdir)  # raises if there is no such directory any more
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
    """A notebook, a shell and `python -c` have a main module that is in no file."""
    path = preparation.get("init_main_from_path")
    if path is not None and not os.path.isfile(path):
        del preparation["init_main_from_path"]  # <stdin>
    return "init_main_from_name" in preparation or "init_main_from_path" in preparation


def _pickle(function: Callable[..., Any], args: tuple[Any, ...], *, importable: bool) -> tuple[str, bytes]:
    """The module of the pickler that could do it, and the pickle."""
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
        except Exception as error:  # whatever the objects' own code raises
            why = f"{type(error).__name__}: {error}"
    raise NotPicklable(getattr(function, "__qualname__", repr(function)), why)


def _without_main(base: Any) -> Any:
    """A pickler for workers that cannot import the main module: the error is raised here, and not in the worker."""
    from types import FunctionType

    class PicklerWithoutMain(base):  # type: ignore[misc]
        def reducer_override(self, thing: object) -> object:
            if isinstance(thing, (type, FunctionType)) and thing.__module__ == "__main__":
                raise DefinedInteractively(thing.__qualname__)
            return NotImplemented

    return PicklerWithoutMain


def _cloud_pickler(base: Any) -> Any:
    """cloudpickle knows functions, multiprocessing knows queues and locks, torch has taught the latter tensors. None if
    cloudpickle is not installed."""
    try:
        import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    from collections import ChainMap

    class CloudPickler(cloudpickle.CloudPickler):  # type: ignore[misc, name-defined, unused-ignore]
        dispatch_table = ChainMap(  # noqa: RUF012  as cloudpickle has it
            cloudpickle.CloudPickler.dispatch_table, base(io.BytesIO()).dispatch_table
        )

    return CloudPickler


def anonymous_file(owner: ExitStack, content: bytes = b"") -> int:
    """The descriptor of a file without a name, in memory where the system can; `owner` closes it. It is never one of a
    worker's standard three."""
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
    """This interpreter, running `body`. `bare`: without site-packages' hooks and the user's variables."""
    from multiprocessing.util import _args_from_interpreter_flags  # type: ignore[attr-defined]

    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    flags = ["-I", "-S"] if bare else _args_from_interpreter_flags()
    path = [source, *(directory for directory in sys.path if directory != source and bare)]
    return sys.executable, *flags, "-c", f"import sys; sys.path[{':' if bare else ':0'}] = {path!r}; {body}"
