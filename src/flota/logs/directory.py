"""The log directory: creates and locks it for a job, writes files in it, and begins each round in the workers' logs."""

from __future__ import annotations

import fcntl
import os
import time
from errno import ENOSPC

from flota.errors import LogDirInUse, UnwritableLogDir
from flota.files import open_file
from flota.job.plan import Worker
from flota.job.roles import label
from flota.job.roster import Roster
from flota.job.spec import JobSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOCK = ".flota.lock"
LOCK_BEGINS = "job "
ROUND_HEADER = "===== flota: "  # begins each round in a worker's log
FULL = 16 << 10  # bytes
TRIES_SHARED = 50  # one per 10 ms
TRIES_ALONE = 3  # another process may hold the lock for a moment, in `is_locked`


def read_end(path: str, most: int) -> bytes:
    """The last bytes of a file in a log directory, at most `most`; nothing if it cannot be read."""
    try:
        file = open_file(path, os.O_RDONLY)
    except (OSError, ValueError):  # ValueError: a path with a NUL
        return b""
    with os.fdopen(file, "rb") as opened:
        try:
            opened.seek(max(0, os.fstat(file).st_size - most))
            return opened.read(most)
        except OSError:
            return b""


def open_directory(directory: str, job_id: str, *, shared: bool = False, option: str = "--log_dir") -> int:
    """Create the directory and lock it for this job. Returns a descriptor that holds the lock while it is open.

    `shared`: other nodes of the same job on this machine may use it. `option`: the flag to name in an error.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        lock = open_file(f"{directory}/{LOCK}", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UnwritableLogDir(directory, error.strerror or str(error), option) from None
    owner = f"{LOCK_BEGINS}{job_id}, "
    try:
        for _ in range(TRIES_SHARED if shared else TRIES_ALONE):
            if _try_lock(lock, fcntl.LOCK_EX):
                if _owner(lock) and not _owner(lock).startswith(LOCK_BEGINS):
                    os.close(lock)
                    raise UnwritableLogDir(directory, f"{LOCK} was not written by flota", option)
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
        lock = open_file(f"{directory}/{LOCK}", os.O_RDONLY)
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
    clock = time.strftime("%Y-%m-%d %H:%M:%S")
    offsets: dict[str, tuple[int, int]] = {}
    for worker in workers:
        header = os.fsencode(
            f"{ROUND_HEADER}job {spec.job_id}, round {roster.round}, attempt {roster.attempt}, "
            f"{label(worker.name, worker.rank)} of {worker.size}, {clock} =====\n"
        )
        for path in worker.logs:
            try:
                if not first and not os.path.isdir(spec.log.directory):
                    # It was removed. The descriptor of the new lock stays open until this process exits.
                    open_directory(spec.log.directory, spec.job_id, shared=spec.nodes is not None)
                offsets[path] = _append_header(path, header, first=first, overwrite=spec.log.overwrite)
            except OSError as error:
                raise UnwritableLogDir(spec.log.directory, error.strerror or str(error)) from None
    return offsets


def _append_header(path: str, header: bytes, *, first: bool, overwrite: bool) -> tuple[int, int]:
    log = open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        before = os.fstat(log).st_size
        if first and overwrite and before:
            os.ftruncate(log, 0)
            before = 0
        if before and os.pread(log, 1, before - 1) != b"\n":
            header = b"\n" + header  # the last line of the earlier output is incomplete
        return before, before + os.write(log, header)
    except OSError as error:
        if first or error.errno != ENOSPC:
            raise
        return before, before  # a full disk does not prevent a restart
    finally:
        os.close(log)


def open_append(path: str, on_error: Callable[[str], object] = str) -> int:
    """Open a file for appending, or /dev/null if that fails, so that a job does not stop because of a log.

    Without a path, keep the lines in memory until `give_name`. `on_error` gets a sentence for the user.
    """
    if not path and hasattr(os, "memfd_create"):
        return os.memfd_create("flota", os.MFD_CLOEXEC)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        on_error(f"cannot write {path}: {error.strerror}")
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def give_name(log: int, path: str) -> None:
    """Go on in the file at this path, after what was appended so far."""
    named = open_append(path)
    os.lseek(log, 0, os.SEEK_SET)
    while data := os.read(log, 1 << 16):
        append(named, data)
    _move(named, log)


def reopen(log: int, path: str) -> None:
    """Go on in a new file at this path, because the one before was removed."""
    _move(open_append(path), log)


def _move(file: int, number: int) -> None:
    os.dup2(file, number, inheritable=False)
    os.close(file)


def is_disk_full(directory: str) -> bool:
    """Whether the file system of a directory has no room for this user."""
    try:
        free = os.statvfs(directory)
    except OSError:
        return False
    return (free.f_bavail if os.geteuid() else free.f_bfree) * free.f_frsize < FULL


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
    temporary = f"{path}.{os.uname().nodename}.{os.getpid()}.tmp"  # another node may share the directory
    remove(temporary)  # left by a process with the same pid, as in an earlier container
    file = open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(file, "w") as out:
            out.write(text)
        os.replace(temporary, path)
    except OSError:
        remove(temporary)
        raise
