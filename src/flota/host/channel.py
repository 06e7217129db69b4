"""The channel between a node and its workers: shared memory, one page per worker.

A worker writes its last step and numbers there (worker/heartbeat.py); the node writes when to stop. Neither side waits:
a write is a few stores, a read is a few loads, and neither depends on memory ordering between processors. The memory
has no name in any directory, so nothing is left behind.
"""

from __future__ import annotations

import os

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

PAGE = 4096
MODULE_LIST_SIZE = 1 << 16  # after the pages, if requested: the modules that one worker has imported, one per line
# A worker writes to two slots in turn, so that one is complete while it writes the other. A slot has a checksum of the
# rest; flags, length of the numbers, time, step, seconds of the fastest recent step; the numbers.
SLOTS, SLOT_SIZE = (0, 2040), 2040
CHECKSUM, FIELDS = "=I", "=HHdqd"
FIELDS_AT, NUMBERS_AT = 4, 32
NO_STEP = -1
# Flags: the worker calls should_stop(); it has a callback for SIGTERM; its step is lower than an earlier one.
POLLS, WANTS_SIGNAL, STEP_WENT_BACK = 1, 2, 4
# The node writes one machine word, which is atomic: 0 to continue, 1 to stop now, STEP_0 + N to stop at step N.
STOP_AT = 4080
STOP = "q"
STEP_0 = 2
TRIES = 100


class Heartbeat(NamedTuple):
    """What a worker last wrote."""

    at: float  # monotonic time; 0.0: nothing yet
    step: int
    flags: int
    seconds: float  # per step; 0.0: not known yet
    numbers: dict[str, float]


NO_HEARTBEAT = Heartbeat(0.0, NO_STEP, 0, 0.0, {})


class Channel:
    """Created by the node for one round. Without memfd (macOS) there is no memory, and heartbeats do nothing."""

    def __init__(self, workers: int, *, module_list: bool = False) -> None:
        self.fd = -1
        self._module_list_at = workers * PAGE
        self._memory: mmap | None = None
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("flota", os.MFD_CLOEXEC)
            os.ftruncate(self.fd, workers * PAGE + (MODULE_LIST_SIZE if module_list else 0))

    def page_path(self, worker: int) -> str:
        """Return the value of FLOTA_CHANNEL, by which a worker finds its page; empty if there is no memory."""
        return f"/proc/{os.getpid()}/fd/{self.fd}:{worker}" if self.fd >= 0 else ""

    @property
    def memory(self) -> mmap | None:
        """The mapping, created at its first use: most jobs never use it."""
        if self._memory is None and self.fd >= 0:
            from mmap import mmap

            self._memory = mmap(self.fd, 0)
        return self._memory

    def read(self, worker: int) -> Heartbeat:
        memory = self.memory
        if memory is None:
            return NO_HEARTBEAT
        base = worker * PAGE
        for _ in range(TRIES):
            if heartbeat := _read_slots(memory[base : base + PAGE]):
                return heartbeat
        return NO_HEARTBEAT  # the page contains something else

    def imported_modules(self) -> list[str]:
        """Return the modules that a worker has imported since its start."""
        if self.memory is None:
            return []
        return self.memory[self._module_list_at :].partition(b"\0")[0].decode(errors="replace").splitlines()

    def request_stop(self, worker: int, step: int = NO_STEP) -> None:
        """Ask a worker to stop at this step, or now."""
        from struct import pack_into

        if self.memory is not None:
            pack_into(STOP, self.memory, worker * PAGE + STOP_AT, STEP_0 + max(step, NO_STEP))

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def read_page(page_path: str) -> Heartbeat:
    """Read a worker's page from another process of the same user. `page_path` is the worker's FLOTA_CHANNEL."""
    path, _, worker = page_path.rpartition(":")
    try:
        with open(path, "rb") as file:
            page = os.pread(file.fileno(), PAGE, int(worker) * PAGE)
    except (OSError, ValueError):
        return NO_HEARTBEAT
    return _read_slots(page) or NO_HEARTBEAT


def _read_slots(page: bytes) -> Heartbeat | None:
    """Return the newer complete slot; None if neither is complete, because the worker wrote during the read."""
    beats = (_read_slot(page[slot : slot + SLOT_SIZE]) for slot in SLOTS)
    return max((beat for beat in beats if beat), key=lambda beat: beat.at, default=None)


def _read_slot(slot: bytes) -> Heartbeat | None:
    """Return None while the slot is being written, or if the worker died during the write."""
    if not any(slot[:NUMBERS_AT]):
        return NO_HEARTBEAT  # the case in most jobs: they do not load the modules below
    from binascii import crc32
    from struct import unpack_from

    (checksum,) = unpack_from(CHECKSUM, slot)
    flags, length, at, step, seconds = unpack_from(FIELDS, slot, FIELDS_AT)
    if crc32(slot[FIELDS_AT : NUMBERS_AT + length]) != checksum:
        return None
    return Heartbeat(at, step, flags, seconds, _read_numbers(slot[NUMBERS_AT : NUMBERS_AT + length]))


def _read_numbers(data: bytes) -> dict[str, float]:
    """Decode pairs of a length-prefixed name and a number."""
    from struct import error, unpack_from

    numbers: dict[str, float] = {}
    position = 0
    try:
        while position < len(data):
            end = position + 1 + data[position]
            numbers[data[position + 1 : end].decode(errors="replace")] = unpack_from("=d", data, end)[0]
            position = end + 8
    except (error, IndexError):
        pass  # a worker can write anything there
    return numbers


def record_imports(channel: str) -> None:
    """Record what this worker imports from now on: interpreters that are parked later import it in advance.

    Only the worker of the channel's first page records: all workers import the same modules.
    """
    import sys

    path, _, page = channel.rpartition(":")
    if path and page == "0":
        sys.meta_path.insert(0, ImportRecorder(path))


class ImportRecorder:
    """The first finder on `sys.meta_path`. It finds no module, but writes each name to the channel."""

    def __init__(self, path: str) -> None:
        from mmap import mmap

        with open(path, "r+b", buffering=0) as file:
            self._memory = mmap(file.fileno(), 0)
        self._end = len(self._memory) - MODULE_LIST_SIZE

    def find_spec(self, name: str, *_: object) -> None:
        line = f"{name}\n".encode()
        # The finder is never removed: code that iterates over `sys.meta_path` would skip an entry.
        if self._end + len(line) < len(self._memory):
            self._memory[self._end : self._end + len(line)] = line
            self._end += len(line)
