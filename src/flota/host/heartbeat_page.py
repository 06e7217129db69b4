"""Reads what a worker has written to its page of the channel (worker/heartbeat.py)."""

from __future__ import annotations

import os

from flota.host.channel import NO_STEP, PAGE
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

# A worker writes to two slots in turn, so that one is complete while it writes the other. A slot has a checksum of the
# rest; flags, length of the times, length of the numbers, time, step, seconds of the fastest recent step, total of
# steps; the times (worker/work_times.py); the numbers.
SLOTS, SLOT_SIZE = (0, 2040), 2040
CHECKSUM, FIELDS = "=I", "=HHHdqdq"
FIELDS_AT, FIELDS_END = 4, 42
# Flags: the worker calls should_stop(); it has a callback for SIGTERM; its step is lower than an earlier one.
POLLS, WANTS_SIGNAL, STEP_WENT_BACK = 1, 2, 4
TRIES = 100


class Heartbeat(NamedTuple):
    """What a worker last wrote."""

    at: float  # monotonic time; 0.0: nothing yet
    step: int
    flags: int
    seconds: float  # per step; 0.0: not known yet
    numbers: dict[str, float]
    total: int  # steps of the whole training; 0: unknown
    times: bytes  # see ledger/page.py


NO_HEARTBEAT = Heartbeat(0.0, NO_STEP, 0, 0.0, {}, 0, b"")


def read_mapped(memory: mmap, base: int) -> Heartbeat:
    """Read the page that begins at `base`."""
    for _ in range(TRIES):
        if heartbeat := _read_slots(memory[base : base + PAGE]):
            return heartbeat
    return NO_HEARTBEAT  # the page contains something else


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
    if not any(slot[:FIELDS_END]):
        return NO_HEARTBEAT  # the case in most jobs: they do not load the modules below
    from binascii import crc32
    from struct import unpack_from

    (checksum,) = unpack_from(CHECKSUM, slot)
    flags, times, numbers, at, step, seconds, total = unpack_from(FIELDS, slot, FIELDS_AT)
    numbers_at = FIELDS_END + times
    end = numbers_at + numbers
    if crc32(slot[FIELDS_AT:end]) != checksum:
        return None
    return Heartbeat(at, step, flags, seconds, read_numbers(slot[numbers_at:end]), total, slot[FIELDS_END:numbers_at])


def read_numbers(data: bytes) -> dict[str, float]:
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
