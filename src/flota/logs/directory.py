"""The log directory: creates and locks it for a job, and writes a header to each worker's log when a round starts."""

from __future__ import annotations

import fcntl
import os
import time

from flota.errors import LogDirInUse, UnwritableLogDir
from flota.job.plan import Worker
from flota.job.roles import label
from flota.job.roster import Roster
from flota.job.spec import JobSpec

LOCK = ".flota.lock"
ROUND_HEADER = "===== flota: "  # begins each round in a worker's log
TRIES_SHARED = 50  # one per 10 ms
TRIES_ALONE = 3  # another process may hold the lock for a moment, in `is_locked`


def open_directory(directory: str, job_id: str, *, shared: bool = False, option: str = "--log_dir") -> int:
    """Create the directory and lock it for this job. Returns a descriptor that holds the lock while it is open.

    `shared`: other nodes of the same job on this machine may use it. `option`: the flag to name in an error.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        lock = os.open(f"{directory}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UnwritableLogDir(directory, error.strerror or str(error), option) from None
    owner = f"job {job_id}, "
    try:
        for _ in range(TRIES_SHARED if shared else TRIES_ALONE):
            if _try_lock(lock, fcntl.LOCK_EX):
                os.ftruncate(lock, 0)
                os.pwrite(lock, os.fsencode(f"{owner}pid {os.getpid()}\n"), 0)
                if shared:
                    fcntl.flock(lock, fcntl.LOCK_SH)
                return lock
            # Another node of this job may have locked the directory just before.
            if shared and _try_lock(lock, fcntl.LOCK_SH):
                if _owner(lock).startswith(owner):
                    return lock
                fcntl.flock(lock, fcntl.LOCK_UN)
            time.sleep(0.01)
    except OSError:
        return lock  # the file system has no locks: run without one
    raise LogDirInUse(directory, f" ({_owner(lock)})" if _owner(lock) else "", option)


def is_locked(directory: str) -> bool | None:
    """Whether a running job has locked the directory; None if that is unknown."""
    try:
        lock = os.open(f"{directory}/{LOCK}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return not _try_lock(lock, fcntl.LOCK_EX)
    except OSError:
        return None
    finally:
        os.close(lock)


def _try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(lock: int) -> str:
    return os.pread(lock, 200, 0).decode(errors="replace").strip()


def write_round_headers(
    spec: JobSpec, roster: Roster, workers: tuple[Worker, ...], *, first: bool
) -> dict[str, tuple[int, int]]:
    """Write a round's header to each worker's logs. Returns, for each path, where the header begins and where it ends.

    `first`: this node's first round, at which --log_overwrite truncates the logs of an earlier job.
    """
    fresh = spec.log.overwrite and first
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if fresh else 0)
    clock = time.strftime("%Y-%m-%d %H:%M:%S")
    offsets: dict[str, tuple[int, int]] = {}
    for worker in workers:
        header = os.fsencode(
            f"{ROUND_HEADER}job {spec.job_id}, round {roster.round}, attempt {roster.attempt}, "
            f"{label(worker.name, worker.rank)} of {worker.size}, {clock} =====\n"
        )
        for path in worker.logs:
            try:
                offsets[path] = _append_header(path, flags, header)
            except OSError as error:
                raise UnwritableLogDir(spec.log.directory, error.strerror or str(error)) from None
    return offsets


def _append_header(path: str, flags: int, header: bytes) -> tuple[int, int]:
    log = os.open(path, flags, 0o666)
    try:
        before = os.fstat(log).st_size
        if before and os.pread(log, 1, before - 1) != b"\n":
            header = b"\n" + header  # the last line of the earlier output is incomplete
        os.write(log, header)
    finally:
        os.close(log)
    return before, before + len(header)


def open_append(path: str) -> int:
    """Open a file for appending, or /dev/null if that fails, so that a job does not stop because of a log.

    Without a path, keep the lines in memory until `give_name`.
    """
    if not path and hasattr(os, "memfd_create"):
        return os.memfd_create("flota", os.MFD_CLOEXEC)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def give_name(log: int, path: str) -> None:
    """Go on in the file at this path, after what was appended so far."""
    named = open_append(path)
    os.lseek(log, 0, os.SEEK_SET)
    while data := os.read(log, 1 << 16):
        append(named, data)
    os.dup2(named, log, inheritable=False)
    os.close(named)


def append(log: int, data: bytes) -> bool:
    """Append to a log. Returns False if that failed: a job continues on a full disk, without these lines."""
    try:
        os.write(log, data)
    except OSError:
        return False
    return True


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def write_whole(path: str, text: str, mode: int = 0o644) -> None:
    """Replace a file. Readers see the old content or the new content, never a part of it."""
    temporary = f"{path}.{os.getpid()}.tmp"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "w") as out:
            out.write(text)
        os.replace(temporary, path)
    except OSError:
        remove(temporary)
        raise
