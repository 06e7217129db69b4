"""A parked interpreter, or a fork of one, becomes a worker, and all is as a cold start would have made it.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import os
import sys

from flota.host.process_start import ProcessSpec, redirect
from flota.standby.import_recorder import record
from flota.standby.import_traces import Traces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST_SAYING = 1 << 20


def become(spawn: ProcessSpec, fds: Iterable[int], traces: Traces, *, forked: bool, records: bool) -> None:
    """When this returns, Python goes on to the script. Whatever goes wrong here, the worker starts cold instead."""
    try:
        said = [(stream, os.pread(stream, LARGEST_SAYING, 0)) for stream in _streams()]
        redirect(spawn)
        os.environ.clear()
        os.environ.update(traces.environ(spawn.env))
        _set_arguments(spawn.argv)
        if forked:
            traces.chance.scatter()
            _free_threads()
        for stream, words in said:
            os.write(stream, words)
        if records:
            record(spawn.env.get("FLOTA_CHANNEL", ""))
        for fd in fds:
            os.close(fd)
    except Exception as error:
        start_cold(spawn, f"flota: this worker starts cold: {type(error).__name__}: {error}\n")


def start_cold(spawn: ProcessSpec, why: str = "") -> None:
    redirect(spawn)
    os.write(2, why.encode())
    os.execve(spawn.argv[0], spawn.argv, spawn.env)


def _streams() -> list[int]:
    """Where imports have printed: in one file, or in two."""
    return [1] if os.path.samestat(os.fstat(1), os.fstat(2)) else [1, 2]


def copy_sayings(out: int, err: int) -> None:
    """What follows is printed to files of its own, behind what was printed before."""
    files = {1: out, 2: err}
    for stream in _streams():
        os.write(files[stream], os.pread(stream, LARGEST_SAYING, 0))
    for stream, fd in files.items():
        os.dup2(fd, stream)
        os.close(fd)


def _set_arguments(argv: tuple[str, ...]) -> None:
    """The script is this process's already; its arguments may hold a rank."""
    sys.argv[1:] = argv[4 if argv[2] == "-m" else 3 :]  # python -u -m train …, or python -u train.py …
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = argv


def _free_threads() -> None:
    """BLAS was held at one thread while it was imported, so that a fork was safe; a worker has as many as it would."""
    wanted = next(
        (
            int(os.environ[name])
            for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
            if os.environ.get(name, "").isdigit()
        ),
        len(os.sched_getaffinity(0)),
    )
    if wanted <= 1:
        return
    import ctypes

    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix in ("", "scipy_"):
            for suffix in ("", "64_"):
                call = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
                if call is not None:
                    call(wanted)
