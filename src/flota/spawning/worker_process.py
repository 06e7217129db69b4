"""The program of a worker of flota.spawn: loads the pickled call, calls the function, and writes its result to a file.

Runs in the user's interpreter, Python 3.8 or newer. It imports no other module of flota unless there is an error:
the training script should find as few modules loaded as possible.
"""

from __future__ import annotations

import io
import os
import pickle
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Callable  # noqa: UP035  as of 3.8

RETURNED, RAISED, UNGUARDED = b"R", b"E", b"G"  # the first byte of a result file
CHUNK = 1 << 26


def main(call_fd: int, result_fd: int, rank: int) -> None:
    """The program of a worker in a new interpreter."""
    for fd in (call_fd, result_fd):
        os.set_inheritable(fd, False)  # noqa: FBT003  not for processes that the function starts
    # Workers share the console: unbuffered, a line and its newline would be two writes, and lines would mix.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
    try:
        call, pickler = load_call(call_fd, rank)
    except BaseException as error:
        os._exit(write_error(result_fd, error))
    os.close(call_fd)
    sys.exit(run(call, rank, result_fd, pickler))


def load_call(call_fd: int, rank: int, *, prepared: bool = False) -> tuple[Callable[[int], Any], Any]:
    """Return the function bound to its arguments, and the module that pickles its result. Calls `prepare` first, unless
    the process is `prepared`."""
    content = io.BytesIO(read_all(call_fd))
    preparation = pickle.load(content)  # noqa: S301  written by our own caller
    if not prepared:
        prepare(preparation, rank)
    function, args = pickle.load(content)  # noqa: S301
    return bind(function, args, with_rank=preparation["with_rank"]), __import__(preparation["pickler"])


def bind(function: Callable[..., Any], args: tuple[Any, ...], *, with_rank: bool) -> Callable[[int], Any]:
    return lambda rank: function(rank, *args) if with_rank else function(*args)


def prepare(preparation: dict[str, Any], rank: int) -> None:
    """Take over the caller's path, directory, argv and main module.

    `_inheriting` is set while the script is imported: a call of flota.spawn meanwhile has no main guard.
    """
    from multiprocessing import process, resource_tracker, spawn

    if preparation["tracker"] is not None:
        resource_tracker._resource_tracker._fd = preparation["tracker"]  # type: ignore[attr-defined]  # noqa: SLF001
    current = process.current_process()
    current._inheriting = True  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        spawn.prepare(preparation)
    finally:
        del current._inheriting  # type: ignore[attr-defined]  # noqa: SLF001
    current.name = f"flota-{rank}"


def run(call: Callable[[int], Any], rank: int, result_fd: int, pickler: Any) -> int:
    """Call the function, and write what it returns or raises. Returns the exit code."""
    try:
        value = call(rank)
        write_result(result_fd, RETURNED, lambda file: pickler.dump(value, file, pickle.HIGHEST_PROTOCOL))
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return (exit_.code or 0) & 255
        sys.stderr.write(f"{exit_.code}\n")  # as the interpreter does
        return 1
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 130  # reached only if the signal is blocked
    except BaseException as error:
        return write_error(result_fd, error)
    return 0


def write_result(result_fd: int, kind: bytes, write: Callable[[IO[bytes]], object]) -> None:
    os.ftruncate(result_fd, 0)
    os.lseek(result_fd, 0, os.SEEK_SET)
    with os.fdopen(result_fd, "wb", closefd=False) as file:
        file.write(kind)
        write(file)


def write_error(result_fd: int, error: BaseException) -> int:
    import traceback

    from flota.errors.worker import summarize

    # Omit the frames of this file.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    # The last line of a traceback may be part of a longer message, a note or a hint.
    summary = summarize(error).split("\n")[0]
    content = f"{summary}\n{text}".encode("utf-8", "replace")
    errors: Any = sys.modules.get("flota.errors.spawning")  # loaded if MissingGuard was raised
    kind = UNGUARDED if errors and isinstance(error, errors.MissingGuard) else RAISED
    write_result(result_fd, kind, lambda file: file.write(content))
    if kind == RAISED and "FLOTA_LOG_DIR" in os.environ:
        sys.stderr.write(text)  # to the log as well; without logs the caller prints it
        sys.stderr.flush()
    return 1


def read_all(fd: int) -> bytes:
    """Read a file from its beginning. The file offset, which processes share, does not matter."""
    content = bytearray()
    while part := os.pread(fd, CHUNK, len(content)):
        content += part
    return bytes(content)


def run_forked(call: Callable[[int], Any] | None, call_fd: int, result_fd: int, rank: int, env: dict[str, str]) -> int:
    """The program of a forked worker. Without `call`, the call is in the file. Returns the exit code."""
    import threading
    from multiprocessing import process, util

    os.environ.clear()
    os.environ.update(env)
    heartbeat: Any = sys.modules.get("flota.worker.heartbeat")
    if heartbeat:
        heartbeat.reset()  # the parent may be a worker as well
    # The parent's streams may belong to a notebook, and their buffers must not be written twice.
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1, closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    process.current_process().name = f"flota-{rank}"
    util._finalizer_registry.clear()  # type: ignore[attr-defined]  # noqa: SLF001  as multiprocessing does
    util._run_after_forkers()  # type: ignore[attr-defined]  # noqa: SLF001
    pickler: Any = pickle
    if call is None:
        try:
            call, pickler = load_call(call_fd, rank, prepared=True)
        except BaseException as error:
            return write_error(result_fd, error)
    code = run(call, rank, result_fd, pickler)
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  waits for threads
    util._exit_function()  # type: ignore[attr-defined]  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code
