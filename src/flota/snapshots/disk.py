"""Snapshots in --snapshot_dir: what a node finds there, and how its copier writes them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from zlib import crc32

from flota.errors.snapshots import UnwritableSnapshotDir
from flota.snapshots.agreement import ALL_RANKS, MOST_STEPS, HeldSnapshot
from flota.snapshots.state_file import StateFile
from flota.worker import snapshot_layout as layout
from flota.worker.snapshot_files import SavedFile, find_old, list_files, remove_unfinished, replace_file, set_aside
from flota.worker.snapshot_layout import Entry

KEEP = 2  # files per rank
CHUNK = 1 << 20
# Another user may have put a pipe or a link there: neither must block this node.
OPEN_SAFELY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare_directory(directory: str) -> None:
    """Check that states can be written, before anything is started, and remove what an earlier job left unfinished."""
    probe = f"{directory}/.flota-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        os.makedirs(directory, exist_ok=True)
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(probe)
    except FileExistsError:
        raise UnwritableSnapshotDir(directory, "it is not a directory") from None
    except OSError as error:
        raise UnwritableSnapshotDir(directory, error.strerror or str(error)) from None
    remove_unfinished(directory)


def _list_regular(directory: str, name: str = "") -> list[SavedFile]:
    """Pipes and links are not flota's: they are neither read nor removed."""
    return [one for one in list_files(directory, name) if _is_regular(f"{directory}/{one.filename}")]


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False  # another node has removed it


def find_file(directory: str, role: str, rank: int, step: int) -> str:
    """The path of a whole state; empty if there is none."""
    for file in list_files(directory):
        if (file.role, file.rank, file.step) == (role, rank, step) and _is_whole(directory, file):
            return f"{directory}/{file.filename}"
    return ""


def forget_after(directory: str, role: str, step: int) -> None:
    """Remove the states of later steps: the training goes on from this one, and must not be mixed with them."""
    for file in _list_regular(directory):
        if file.role == role and file.step > step:
            _remove(directory, file)


def find_states(directory: str) -> tuple[HeldSnapshot, ...]:
    """What can be loaded from a directory. Steps of which it has the parts of all ranks are listed once: where all
    nodes share it, a list of all ranks from each of them would be long."""
    found: dict[tuple[str, int, bool], dict[int, list[int]]] = {}  # role, world, sharded: step: ranks
    for file in list_files(directory):
        entry = _read_entry(f"{directory}/{file.filename}")
        if entry and _is_of(entry, file):
            states = found.setdefault((file.role, file.world, bool(entry.sharded)), {})
            states.setdefault(file.step, []).append(file.rank)
    held = []
    for (role, world, sharded), states in found.items():
        whole = [step for step, ranks in states.items() if len(ranks) == world and sharded]
        if whole:
            held.append(HeldSnapshot(role, ALL_RANKS, world, sharded, tuple(whole[-MOST_STEPS:])))
        for rank in sorted({rank for step, ranks in states.items() if step not in whole for rank in ranks}):
            steps = [step for step, ranks in states.items() if rank in ranks and step not in whole]
            held.append(HeldSnapshot(role, rank, world, sharded, tuple(steps[-MOST_STEPS:])))
    return tuple(held)


def _read_entry(path: str) -> Entry | None:
    """Returns None if there is no regular file, or it cannot be read; EMPTY if it has no state."""
    try:
        fd = os.open(path, OPEN_SAFELY)
    except OSError:
        return None
    try:
        return StateFile("", 0, fd).entries()[0] if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _is_whole(directory: str, file: SavedFile) -> bool:
    entry = _read_entry(f"{directory}/{file.filename}")
    return entry is not None and _is_of(entry, file)


def _is_of(entry: Entry, file: SavedFile) -> bool:
    return entry.is_complete and (entry.step, entry.rank, entry.world) == (file.step, file.rank, file.world)


def set_broken_aside(directory: str) -> list[str]:
    """Rename the files that were truncated, or whose first page is damaged. Returns their former paths. Files get their
    names when they are whole, so none of these is being written."""
    found = []
    for file in list_files(directory):
        path = f"{directory}/{file.filename}"
        entry = _read_entry(path)
        if entry is not None and not _is_of(entry, file) and set_aside(path):
            found.append(path)
    return found


def set_damaged_aside(path: str) -> bool:
    """Whether a file was damaged, and is out of the way now. Reads the whole file."""
    entry, checksum = _read_entry(path) or layout.EMPTY, 0
    try:
        with open(os.open(path, OPEN_SAFELY), "rb") as file:
            file.seek(entry.offset)
            for at in range(0, entry.size, CHUNK):
                checksum = crc32(file.read(min(CHUNK, entry.size - at)), checksum)
    except OSError:
        return False  # the worker reports that
    return layout.is_damaged(entry, checksum) and set_aside(path)


def _remove(directory: str, file: SavedFile) -> None:
    try:
        os.unlink(f"{directory}/{file.filename}")
    except OSError:
        pass  # another node has removed it, or the disk refuses


def write_file(directory: str, file: StateFile, entry: Entry, chunks: Iterable[bytes]) -> None:
    """Write one state of a rank, and remove old ones."""
    tree = os.pread(file.fd, entry.tree_size, entry.offset + entry.tree_at)
    name = str(json.loads(tree)["name"])
    moved = layout.entry_alone(entry)

    def write(fd: int) -> None:
        at, checksum = moved.offset, 0
        for chunk in chunks:
            checksum = crc32(chunk, checksum)
            at += os.pwrite(fd, chunk, at)
        os.ftruncate(fd, moved.offset + moved.capacity)
        os.pwrite(fd, layout.first_page(moved, checksum), 0)

    written = SavedFile(name, file.role, entry.step, entry.rank, entry.world)
    replace_file(directory, written.filename, write)
    _remove_old(directory, written, sharded=bool(entry.sharded))


def _remove_old(directory: str, written: SavedFile, *, sharded: bool) -> None:
    """Remove the states of a rank that are not needed. A damaged one must not take the place of a whole one, and stays:
    the next round reports it."""
    files = [one for one in _list_regular(directory, written.name) if one.role == written.role]
    whole = [one for one in files if one.rank != written.rank or _is_whole(directory, one)]
    for one in find_old(whole, written, KEEP, sharded=sharded):
        _remove(directory, one)


def newest_unwritten(directory: str, files: Iterable[StateFile]) -> Iterator[tuple[StateFile, int, Entry]]:
    """The newest state of each rank that is to be written and is not in the directory: file, buffer, entry. Of a state
    that all ranks have, only rank 0's is written."""
    for file in files:
        entries = file.entries()
        steps = layout.complete_steps(entries)
        if steps:
            buffer = steps[max(steps)]
            entry = entries[buffer]
            due = entry.sharded or entry.rank == 0
            if due and not find_file(directory, file.role, file.rank, entry.step):
                yield file, buffer, entry
