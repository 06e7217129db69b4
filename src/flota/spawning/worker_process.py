"""Inside a worker: takes the function out of its parcel, calls it, and leaves its result.

Runs in the user's interpreter, on Python 3.8 and newer, and imports nothing else of flota until there is an error:
whatever it loads, the training script has loaded.
"""

from __future__ import annotations

import io
import os
import pickle
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: UP035  as of 3.8

RETURNED, RAISED, UNGUARDED = b"R", b"E", b"G"  # the first byte of what a worker leaves
CHUNK = 1 << 26


class Inherited:
    """What multiprocessing makes of a descriptor that a worker has under the number that it had in the program."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def detach(self) -> int:
        return self.fd


def main(parcel: int, result: int, rank: int) -> None:
    """The whole program of a worker that is an interpreter of its own."""
    for fd in (parcel, result):
        os.set_inheritable(fd, False)  # noqa: FBT003  not for what the function starts
    write_whole_lines()
    try:
        call, cloudy = unpack(parcel, rank)
    except BaseException as error:
        os._exit(leave_error(result, error))
    os.close(parcel)
    sys.exit(work(call, rank, result, cloudy=cloudy))


def unpack(parcel: int, rank: int, *, prepared: bool = False) -> tuple[Callable[[int], Any], bool]:
    """The function with its arguments, in a process that looks to them like the one they come from."""
    content = io.BytesIO(read_all(parcel))
    preparation = pickle.load(content)  # noqa: S301  written by our own parent
    if not prepared:
        prepare(preparation, rank)
    cloudy, with_rank = pickle.load(content)  # noqa: S301
    function, args = pickle.load(content)  # noqa: S301
    return bind(function, args, with_rank=with_rank), cloudy


def import_main(parcel: int) -> None:
    """The script alone, for a process of which workers will be forks."""
    prepare(pickle.load(io.BytesIO(read_all(parcel))), 0)  # noqa: S301


def bind(function: Callable[..., Any], args: tuple[Any, ...], *, with_rank: bool) -> Callable[[int], Any]:
    return lambda rank: function(rank, *args) if with_rank else function(*args)


def prepare(preparation: dict[str, Any], rank: int) -> None:
    """Make this interpreter's path, directory, argv and main module the parent's.

    `_inheriting` marks the time in which the script is imported: who starts workers then has forgotten the guard.
    """
    from multiprocessing import process, resource_tracker, spawn

    tracker = preparation.pop("tracker")
    if tracker is not None:
        resource_tracker._resource_tracker._fd = tracker  # type: ignore[attr-defined]  # noqa: SLF001
    current = process.current_process()
    current._inheriting = True  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        spawn.prepare(preparation)
    finally:
        del current._inheriting  # type: ignore[attr-defined]  # noqa: SLF001
    current.name = f"flota-{rank}"


def work(call: Callable[[int], Any], rank: int, result: int, *, cloudy: bool) -> int:
    """Call the function: the exit code. Both what it returns and what it raises is left in the file `result`."""
    try:
        value = call(rank)
    except SystemExit as ending:
        return exit_code(ending)
    except KeyboardInterrupt:
        return die_interrupted()
    except BaseException as error:
        return leave_error(result, error)
    try:
        leave(result, RETURNED, value, cloudy=cloudy)
    except BaseException as error:
        return leave_error(result, error)
    return 0


def leave(result: int, kind: bytes, value: Any, *, cloudy: bool) -> None:
    os.ftruncate(result, 0)
    os.lseek(result, 0, os.SEEK_SET)
    with os.fdopen(result, "wb", closefd=False) as file:
        file.write(kind)
        if isinstance(value, bytes) and kind != RETURNED:
            file.write(value)
        elif cloudy:
            import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]

            cloudpickle.dump(value, file)
        else:
            pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)


def leave_error(result: int, error: BaseException) -> int:
    import traceback

    from flota.errors.worker import in_words

    # Without the frames of this file: they are not the user's.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    kind = UNGUARDED if is_unguarded(error) else RAISED
    # A traceback's last line may be anything: a message of several lines, a note, a hint.
    summary = in_words(error).split("\n")[0]
    left = f"{summary}\n{text}"
    leave(result, kind, left.encode("utf-8", "replace"), cloudy=False)
    if kind == RAISED and "FLOTA_LOG_DIR" in os.environ:
        sys.stderr.write(text)  # whoever reads the log wants it there, too; on a screen the parent shows it
        sys.stderr.flush()
    return 1


def is_unguarded(error: BaseException) -> bool:
    """Whether it says that the script starts workers while it is imported; whoever says so has loaded that error."""
    errors = sys.modules.get("flota.errors.spawning")
    return errors is not None and isinstance(error, errors.MissingGuard)


def exit_code(ending: SystemExit) -> int:
    """As the interpreter has it: a text is printed, and means 1."""
    if ending.code is None or isinstance(ending.code, int):
        return (ending.code or 0) & 255
    sys.stderr.write(f"{ending.code}\n")
    return 1


def die_interrupted() -> int:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    return 130  # not reached, but where the signal is blocked


def read_all(fd: int) -> bytes:
    """From its beginning, whatever others with the same file have read."""
    parts: list[bytes] = []
    position = 0
    while True:
        part = os.pread(fd, CHUNK, position)
        if not part:
            return b"".join(parts)
        parts.append(part)
        position += len(part)


def write_whole_lines() -> None:
    """Workers share the console: unbuffered, a line and its end would be two writes, with others' between them."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]


def run_forked(call: Callable[[int], Any] | None, parcel: int, result: int, rank: int, env: dict[str, str]) -> int:
    """The whole life of a worker that is a fork; without `call` it is in the parcel."""
    import threading
    from multiprocessing import process, util

    os.environ.clear()
    os.environ.update(env)
    heartbeat: Any = sys.modules.get("flota.worker.heartbeat")
    if heartbeat:
        heartbeat.reset()  # the parent may be a worker, too
    # The parent's may be a notebook's; and what is left in their buffers is the parent's to write.
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1, closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    process.current_process().name = f"flota-{rank}"
    util._finalizer_registry.clear()  # type: ignore[attr-defined]  # noqa: SLF001  the parent's, as multiprocessing does
    util._run_after_forkers()  # type: ignore[attr-defined]  # noqa: SLF001
    cloudy = False
    if call is None:
        try:
            call, cloudy = unpack(parcel, rank, prepared=True)
        except BaseException as error:
            return leave_error(result, error)
    code = work(call, rank, result, cloudy=cloudy)
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  its threads may have work to finish
    util._exit_function()  # type: ignore[attr-defined]  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code
