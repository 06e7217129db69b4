"""Turns a parked interpreter, or a fork of one, into a worker whose process is as a cold start would have made it.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from flota.host.process_start import ProcessSpec, redirect
from flota.standby.import_effects import BLAS_THREADS, ImportEffects
from flota.standby.record_imports import record_imports

LARGEST_OUTPUT = 1 << 20  # bytes that imports printed


def become_worker(
    spawn: ProcessSpec, fds: Iterable[int], effects: ImportEffects, *, forked: bool, records: bool
) -> None:
    """When this returns, Python goes on to the script. If anything goes wrong here, the worker starts cold instead."""
    try:
        is_one_stream = os.path.samestat(os.fstat(1), os.fstat(2))
        printed = {stream: os.pread(stream, LARGEST_OUTPUT, 0) for stream in ((1,) if is_one_stream else (1, 2))}
        redirect(spawn)
        os.environ.clear()
        os.environ.update(effects.environ(spawn.env))
        _set_arguments(spawn.argv)
        if forked:
            effects.random.draw_again()
            _set_blas_threads()
        for stream, output in printed.items():
            os.write(stream, output)
        if records:
            record_imports(spawn.env.get("FLOTA_CHANNEL", ""))
        for fd in fds:
            os.close(fd)
    except Exception as error:
        start_cold(spawn, f"flota: this worker starts cold: {type(error).__name__}: {error}\n")


def start_cold(spawn: ProcessSpec, reason: str = "") -> None:
    redirect(spawn)
    os.write(2, reason.encode())
    os.execve(spawn.argv[0], spawn.argv, spawn.env)


def _set_arguments(argv: tuple[str, ...]) -> None:
    """The script is the same for all workers; its arguments may contain a rank."""
    sys.argv[1:] = argv[4 if argv[2] == "-m" else 3 :]  # python -u -m train …, or python -u train.py …
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = argv


def _set_blas_threads() -> None:
    """As many as OpenBLAS would have taken, which was held at one while it was imported."""
    given = [os.environ.get(name, "") for name in (*BLAS_THREADS, "OMP_NUM_THREADS")]
    threads = next((int(number) for number in given if number.isdigit()), len(os.sched_getaffinity(0)))
    if threads <= 1:
        return
    import ctypes

    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for name in ("openblas_set_num_threads", "scipy_openblas_set_num_threads"):
            for suffix in ("", "64_"):
                set_threads = getattr(library, name + suffix, None)
                if set_threads is not None:
                    set_threads(threads)
