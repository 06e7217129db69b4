"""Snapshots as files in a directory: one file per step and rank, in the layout of a rank's memory.

Without flota a worker writes them itself; with --snapshot_dir its node does (snapshots/disk.py).
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from mmap import mmap
from threading import get_ident
from zlib import crc32

from flota.values import NamedTuple
from flota.worker import snapshot_layout as layout
from flota.worker.snapshot_layout import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.worker.snapshot_tree import Flattened

ENDING = "snapshot"
UNFINISHED_TIME = 60.0  # seconds without a change after which a temporary file may be one that was left
TEMPORARY = re.compile(r"\.(.+)\.[0-9]+\.[0-9]+\.[0-9a-f]{8}")


class SavedFile(NamedTuple):
    """The name of a file says what is in it: `train.trainer.100.0.2.snapshot`."""

    name: str
    role: str
    step: int
    rank: int
    world: int

    @property
    def filename(self) -> str:
        return ".".join([*map(str, self), ENDING])


def parse_filename(filename: str) -> SavedFile | None:
    name, *rest = filename.split(".")
    if len(rest) != 5 or rest[-1] != ENDING or not all(one.isascii() and one.isdecimal() for one in rest[1:4]):
        return None
    return SavedFile(name, rest[0], *map(int, rest[1:4]))


def list_files(directory: str, name: str = "") -> list[SavedFile]:
    """The snapshots in a directory, of this name or of any, in the order of their steps."""
    try:
        found = [parse_filename(one) for one in os.listdir(directory)]
    except OSError:
        return []
    return sorted((one for one in found if one and name in ("", one.name)), key=lambda one: (one.step, one.rank))


def write_state(directory: str, file: SavedFile, state: Flattened, tree: bytes, *, sharded: bool) -> None:
    """Write a state of this process to a file."""
    from flota.worker.snapshot_memory import copy_state, make_views

    entry = Entry(*(file.step, file.step + 1, 0, 0, state.size, len(tree), file.rank, file.world), sharded=int(sharded))
    entry = layout.entry_alone(entry)

    def write(fd: int) -> None:
        os.truncate(fd, entry.offset + entry.capacity)
        memory = mmap(fd, entry.capacity, offset=entry.offset)
        copy_state(state, tree, memory, make_views(memory, state.saved))
        memory.flush()
        with memoryview(memory) as view:
            os.pwrite(fd, layout.first_page(entry, crc32(view[: entry.size])), 0)

    replace_file(directory, file.filename, write)


def replace_file(directory: str, filename: str, write: object) -> None:
    """Create a file that is either whole or not there, also after a power failure. Threads may do so at once."""
    os.makedirs(directory, exist_ok=True)
    temporary = f"{directory}/.{filename}.{os.getpid()}.{get_ident()}.{os.urandom(4).hex()}"
    # O_EXCL: where others can write as well, a link there could lead to any file of this user.
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _try_lock(fd)  # until it has its name: see remove_unfinished
        write(fd)  # type: ignore[operator]
        os.fsync(fd)
        os.replace(temporary, f"{directory}/{filename}")
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:
        return False  # another process has locked it, or the file system has no locks
    return True


def remove_unfinished(directory: str, name: str = "") -> None:
    """Remove the parts of files that killed processes have left: those of replace_file that no process has locked."""
    try:
        found = [(one, TEMPORARY.fullmatch(one)) for one in os.listdir(directory)]
    except OSError:
        return
    for one, match in found:
        file = parse_filename(match[1]) if match else None
        if file and name in ("", file.name):
            _remove_unlocked(f"{directory}/{one}")


def _remove_unlocked(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(fd)
        # A process may just have created it, and not have locked it yet; not all file systems lock for other hosts.
        is_old = time.time() - status.st_mtime > UNFINISHED_TIME
        if stat.S_ISREG(status.st_mode) and is_old and _try_lock(fd):
            os.unlink(path)
    except OSError:
        pass  # another node has done so
    finally:
        os.close(fd)


def set_aside(path: str) -> bool:
    """Rename a damaged file, so that no rank loads it and it takes no place of a whole one."""
    try:
        os.rename(path, f"{path}.damaged")
    except OSError:
        return False  # another rank has done so, or the directory cannot be written
    return True


def find_old(files: list[SavedFile], written: SavedFile, keep: int, *, sharded: bool) -> list[SavedFile]:
    """The files of a rank that are not needed when one more is `written`: all but the newest, and that of the newest
    step of which all ranks have a file, because other ranks may have ceased to write. Later steps are of a training
    that this one has not continued: they take no place. `files`: of all ranks, in the order of their steps."""
    mine = [one for one in files if one.rank == written.rank and one.step <= written.step]
    needed = [written, *mine[-keep:]]
    if sharded:
        common = find_common(files)
        needed += [one for one in mine if common and (one.step, one.world) == (common.step, common.world)]
    return [one for one in mine if one not in needed]


def find_common(files: list[SavedFile]) -> SavedFile | None:
    """One file of the newest step of which all ranks have a file."""
    ranks: dict[tuple[int, int], set[int]] = {}
    for one in files:
        ranks.setdefault((one.step, one.world), set()).add(one.rank)
    whole = [one for one in files if len(ranks[one.step, one.world]) == one.world]
    return whole[-1] if whole else None


def remove_old(directory: str, written: SavedFile, keep: int, *, sharded: bool) -> None:
    """Remove the files of a rank that are not needed when one more is written."""
    files = [one for one in list_files(directory, written.name) if one.role == written.role]
    for one in find_old(files, written, keep, sharded=sharded):
        try:
            os.unlink(f"{directory}/{one.filename}")
        except FileNotFoundError:
            pass  # another job in the same directory
