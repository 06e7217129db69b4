"""The bytes of a snapshot: the same in a rank's memory, on the way to another node, and in a file.

A page with one entry per buffer, then the buffers. A worker writes an entry as incomplete, copies its state into the
buffer, and writes the entry again as complete: if it dies in between, the buffers with earlier steps are still whole.
An entry has a checksum, because a node may read it while the worker writes it. The bytes of a state have one in files
only: a disk may lose them, and memory does not. Pure.
"""

from __future__ import annotations

import struct
from zlib import crc32

from flota.values import NamedTuple

PAGE = 4096
ALIGNMENT = 64
BUFFER_ALIGNMENT = 1 << 16  # the largest page size of a processor: a part of a file can be mapped from there on
MAGIC = b"flota snapshot 2"
BUFFERS = 3  # one is written, and two are complete
MOST_BUFFERS = 4  # if two are kept because the node copies or writes them; of the others one is complete
COPY_BUFFERS = 3  # of a rank of another node
ENTRIES = 4
FIRST_ENTRY, ENTRY_SIZE = 256, 256
STRIDE_AT = 2048  # the node's word: the last two states of steps that this divides are kept; 0: none are
KEPT = 2
NO_STEP = -1
LARGEST_STEP = 1 << 45
FAILED = 1 << 46  # in `complete`, and above all steps: the state cannot be had from another node
LARGEST = 1 << 46  # bytes of a file
CHECKED = 1 << 32
_ENTRY = struct.Struct("<qqQQQQIIIQ")
_CHECKSUM = struct.Struct("<I")
_WORD = struct.Struct("<Q")


class Entry(NamedTuple):
    """One buffer: where it is in the file, and the state in it. Arrays come first, then the tree at `tree_at`."""

    step: int = NO_STEP  # of the state; NO_STEP: none
    complete: int = 0  # step + 1 if the state is whole
    offset: int = 0
    capacity: int = 0
    tree_at: int = 0  # from the offset on
    tree_size: int = 0
    rank: int = 0
    world: int = 0
    sharded: int = 0  # whether other ranks have other parts of the state
    checksum: int = 0  # CHECKED + CRC of the bytes of a state in a file; 0: not known

    @property
    def is_complete(self) -> bool:
        return self.step >= 0 and self.complete == self.step + 1

    @property
    def size(self) -> int:
        return self.tree_at + self.tree_size


EMPTY = Entry()


def align(size: int, unit: int = ALIGNMENT) -> int:
    return -(-size // unit) * unit


def entry_at(buffer: int) -> int:
    """The place of a buffer's entry in the first page."""
    return FIRST_ENTRY + buffer * ENTRY_SIZE


def pack_entry(entry: Entry) -> bytes:
    fields = _ENTRY.pack(*entry)
    return _CHECKSUM.pack(crc32(fields)) + fields


def read_entry(page: bytes, buffer: int, file_size: int) -> Entry:
    """Returns EMPTY if the entry is being written, or cannot be of a file of this size."""
    at = entry_at(buffer)
    if page[: len(MAGIC)] != MAGIC:
        return EMPTY
    try:
        (checksum,) = _CHECKSUM.unpack_from(page, at)
        entry = Entry(*_ENTRY.unpack_from(page, at + _CHECKSUM.size))
    except struct.error:
        return EMPTY
    if checksum != crc32(page[at + _CHECKSUM.size : at + _CHECKSUM.size + _ENTRY.size]):
        return EMPTY
    fits = entry.size <= entry.capacity and entry.offset + entry.capacity <= min(file_size, LARGEST)
    return entry if fits and entry.offset > 0 and entry.offset % BUFFER_ALIGNMENT == 0 else EMPTY


def read_entries(page: bytes, file_size: int) -> list[Entry]:
    return [read_entry(page, buffer, file_size) for buffer in range(ENTRIES)]


def complete_steps(entries: list[Entry]) -> dict[int, int]:
    """The steps of all whole states, in order, each with its buffer."""
    return dict(sorted((entry.step, buffer) for buffer, entry in enumerate(entries) if entry.is_complete))


def choose_buffer(entries: list[Entry], kept: set[int]) -> int:
    """The buffer for the next state: an empty one, or that with the oldest state that is not `kept`."""
    free = [buffer for buffer in range(len(entries)) if buffer not in kept]
    return min(free, key=lambda buffer: entries[buffer].step if entries[buffer].is_complete else NO_STEP)


def kept_buffers(entries: list[Entry], stride: int) -> set[int]:
    """The buffers with the last states of steps that the stride divides."""
    sent = [step for step in complete_steps(entries) if stride and step % stride == 0]
    return {complete_steps(entries)[step] for step in sent[-KEPT:]}


def place_buffer(entries: list[Entry], buffer: int, size: int, file_size: int) -> tuple[int, int]:
    """Return the offset and capacity of a buffer for a state of this size: where it is, or at the end of the file."""
    entry = entries[buffer]
    if entry.capacity >= size and entry.offset:
        return entry.offset, entry.capacity
    return align(max(file_size, PAGE), BUFFER_ALIGNMENT), align(size + size // 64 + PAGE, BUFFER_ALIGNMENT)


def read_stride(page: bytes) -> int:
    return int(_WORD.unpack_from(page, STRIDE_AT)[0])


def pack_stride(stride: int) -> bytes:
    return _WORD.pack(stride)


def entry_alone(entry: Entry) -> Entry:
    """The entry of a state in a file that has no other."""
    return entry._replace(offset=BUFFER_ALIGNMENT, capacity=align(entry.size, BUFFER_ALIGNMENT))


def first_page(entry: Entry, checksum: int) -> bytes:
    """The first page of a file that has only this state."""
    page = bytearray(PAGE)
    page[: len(MAGIC)] = MAGIC
    packed = pack_entry(entry._replace(checksum=CHECKED + checksum))
    page[FIRST_ENTRY : FIRST_ENTRY + len(packed)] = packed
    return bytes(page)


def is_damaged(entry: Entry, checksum: int) -> bool:
    """Whether the bytes of a state, which have this checksum, are not those that were written."""
    return entry.checksum not in (0, CHECKED + checksum)
