"""A rank's memory for snapshots, which its node owns: writing a state into it, and reading a state of it or of a file.

The node creates the memory empty. The worker lets it grow at its first save, when it knows how much it needs. Entries
are written with a system call, after which another process sees all that was written before.
"""

from __future__ import annotations

import os
import time
from mmap import ACCESS_COPY, mmap
from typing import Any
from zlib import crc32

from flota.errors.snapshots import BrokenSnapshot, DamagedSnapshot
from flota.free_memory import available
from flota.worker import snapshot_layout as layout
from flota.worker.snapshot_arrays import load_kind
from flota.worker.snapshot_layout import BUFFERS, NO_STEP, PAGE, Entry
from flota.worker.snapshot_tree import Flattened, SavedArray, SavedTree

SHARE = 4  # of the available memory, for the snapshots of all ranks on a node
PUNCH_HOLE, MADV_POPULATE_WRITE = 3, 23
CHUNK = 64 << 20  # bytes that are populated at a time
POLL, LONGEST_FETCH = 0.01, 3600.0  # seconds


class TooLarge(Exception):
    """The memory may not grow so far."""


class RankMemory:
    """`limit`: bytes that it may take; None: this rank's part of a share of what is available."""

    def __init__(self, path: str, limit: int | None, local_size: int) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._limit, self._local_size = limit, local_size
        self._maps: dict[int, tuple[int, int, mmap]] = {}  # by buffer: offset, capacity
        self._views: dict[int, tuple[list[SavedArray], list[Any]]] = {}  # kept: making thousands takes long
        self._thread: Any = None
        self._map_all()

    def entries(self) -> list[Entry]:
        return read_entries(self._fd)

    def write(self, step: int, state: Flattened, tree: bytes, *, rank: int, world: int, sharded: bool) -> None:
        page = os.pread(self._fd, PAGE, 0).ljust(PAGE, b"\0")
        entries = layout.read_entries(page, os.fstat(self._fd).st_size)
        stride = layout.read_stride(page)
        used = entries[: layout.MOST_BUFFERS if stride else BUFFERS]
        buffer = layout.choose_buffer(used, layout.kept_buffers(used, stride))
        is_first = not any(entry.capacity for entry in entries)
        entry = self._reserve(entries, buffer, state.size + len(tree))
        place = step, 0, entry.offset, entry.capacity
        entry = Entry(*place, state.size, len(tree), rank, world, sharded=int(sharded))
        self._put(buffer, entry)
        memory = self._maps[buffer][2]
        kept = self._views.get(buffer)
        if kept is None or kept[0] != state.saved:
            kept = self._views[buffer] = (list(state.saved), make_views(memory, state.saved))
        copy_state(state, tree, memory, kept[1])
        self._put(buffer, entry._replace(complete=step + 1))
        for other, one in enumerate(entries):
            if other != buffer and one.step >= step:  # the training went back: these are of another course of it
                self._put(other, one._replace(step=NO_STEP, complete=0))
        if is_first:
            for other in set(range(BUFFERS)) - {buffer}:
                self._reserve(self.entries(), other, state.size + len(tree))
            self._map_all()

    def _put(self, buffer: int, entry: Entry) -> None:
        os.pwrite(self._fd, layout.pack_entry(entry), layout.entry_at(buffer))

    def _reserve(self, entries: list[Entry], buffer: int, size: int) -> Entry:
        """Make room for a state of this size in a buffer, and map it."""
        before, file_size = entries[buffer], os.fstat(self._fd).st_size
        offset, capacity = layout.place_buffer(entries, buffer, size, file_size)
        if (offset, capacity) == (before.offset, before.capacity):
            self._map(buffer, before)
            return before
        self._check_limit(capacity, entries)
        if file_size < PAGE:
            os.ftruncate(self._fd, PAGE)
            os.pwrite(self._fd, layout.MAGIC, 0)
        os.ftruncate(self._fd, offset + capacity)
        entry = Entry(offset=offset, capacity=capacity)
        self._put(buffer, entry)
        if before.capacity:
            self._release(before)
        self._map(buffer, entry)
        return entry

    def _check_limit(self, capacity: int, entries: list[Entry]) -> None:
        """Read limits before memory is taken: a limit of a cgroup means SIGKILL, and not an error."""
        held = sum(entry.capacity for entry in entries)
        free = available() // max(1, self._local_size)
        limit = free // SHARE + held if self._limit is None else min(self._limit, free + held)
        if BUFFERS * capacity > limit:
            raise TooLarge(BUFFERS * capacity, limit)

    def _map(self, buffer: int, entry: Entry) -> None:
        known = self._maps.get(buffer)
        if known is None or known[:2] != (entry.offset, entry.capacity):
            self._views.pop(buffer, None)
            self._maps[buffer] = (entry.offset, entry.capacity, mmap(self._fd, entry.capacity, offset=entry.offset))

    def _release(self, entry: Entry) -> None:
        """Give back the memory of a buffer that was too small."""
        import ctypes

        size = ctypes.c_long
        ctypes.CDLL(None).fallocate(self._fd, PUNCH_HOLE, size(entry.offset), size(entry.capacity))

    def _map_all(self) -> None:
        """Map all buffers, and have a thread take their pages: the first touch of a page takes ten times a copy."""
        from threading import Thread

        for buffer, entry in enumerate(self.entries()):
            if entry.capacity:
                self._map(buffer, entry)
        if self._maps:
            maps = [(memory, capacity) for _, capacity, memory in self._maps.values()]
            self._thread = Thread(target=_populate, args=(maps,), name="flota-snapshot", daemon=True)
            self._thread.start()


def _populate(maps: list[tuple[mmap, int]]) -> None:
    """Before Linux 5.14, the kernel refuses, and the first copies take the pages."""
    import ctypes
    from threading import get_native_id

    try:
        os.setpriority(os.PRIO_PROCESS, get_native_id(), 19)
    except OSError:
        pass
    madvise = ctypes.CDLL(None).madvise
    for memory, capacity in maps:
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for at in range(0, capacity, CHUNK):
            size = min(CHUNK, capacity - at)
            if madvise(ctypes.c_void_p(start + at), ctypes.c_size_t(size), MADV_POPULATE_WRITE) != 0:
                return


def make_views(memory: Any, saved: list[SavedArray]) -> list[Any]:
    return [load_kind(one.kind).view(memory, one.dtype, one.shape, one.offset) for one in saved]


def copy_state(state: Flattened, tree: bytes, memory: Any, views: list[Any]) -> None:
    """Copy the arrays of a state, and then its tree, into a buffer."""
    for kind in {one.kind for one in state.saved}:
        mine = [number for number, one in enumerate(state.saved) if one.kind == kind]
        load_kind(kind).copy_all([state.arrays[number] for number in mine], [views[number] for number in mine])
    memory[state.size : state.size + len(tree)] = tree


def read_entries(fd: int) -> list[Entry]:
    return layout.read_entries(os.pread(fd, PAGE, 0), os.fstat(fd).st_size)


def _find_state(fd: int, path: str, step: int) -> Entry:
    """The state of this step. The node may still be fetching it from another node."""
    give_up = time.monotonic() + LONGEST_FETCH
    while True:
        entries = read_entries(fd)
        buffer = layout.complete_steps(entries).get(step)
        if buffer is not None:
            return entries[buffer]
        if not path.startswith("/proc/"):
            raise DamagedSnapshot(path, f"it has no state of step {step}, or its first page is damaged")
        failed = any((entry.step, entry.complete) == (step, layout.FAILED) for entry in entries)
        if failed or time.monotonic() > give_up:
            raise BrokenSnapshot(path, f"the state of step {step} could not be fetched from another node")
        time.sleep(POLL)


def open_state(path: str, step: int, *, verified: bool = False) -> tuple[Entry, SavedTree]:
    """Read the state of this step from a rank's memory or a file. What is loaded is always a copy: an optimizer keeps
    the tensors that it is given. `verified`: the bytes need not be compared with their checksum again."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise DamagedSnapshot(path, "it is not there; another rank may have found it damaged") from None
    except OSError as error:
        raise BrokenSnapshot(path, error.strerror or "it cannot be opened") from None
    try:
        entry = _find_state(fd, path, step)
        memory = mmap(fd, entry.capacity, access=ACCESS_COPY, offset=entry.offset)
    finally:
        os.close(fd)
    with memoryview(memory) as view:
        if not verified and entry.checksum and layout.is_damaged(entry, crc32(view[: entry.size])):
            raise DamagedSnapshot(path, f"its checksum is wrong, so the state of step {step} is damaged")

    def read(saved: SavedArray) -> Any:
        if not 0 <= saved.offset <= saved.offset + saved.size <= entry.tree_at:
            raise TypeError("an array that is not in it")
        return load_kind(saved.kind).read(memory, saved.dtype, saved.shape, saved.offset)

    return entry, SavedTree(memory[entry.tree_at : entry.size], path, read)
