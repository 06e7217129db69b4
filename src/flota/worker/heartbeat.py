"""The worker's side of the channel: reports its step and numbers to the node, and reads when to stop."""

from __future__ import annotations

import os
from binascii import crc32
from struct import pack, unpack_from
from time import monotonic

from flota.worker.work_times import WorkTimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

# As in host/heartbeat_page.py, which describes the layout.
PAGE, SLOTS, SLOT_SIZE = 4096, (0, 2040), 2040
CHECKSUM, FIELDS = "=I", "=HHHdqdq"
STOP_AT, STOP, STEP_0 = 4080, "q", 2
NO_STEP = -1
POLLS, WANTS_SIGNAL, STEP_WENT_BACK = 1, 2, 4
LONGEST_NAME = 255
LARGEST_NUMBERS = 1264  # bytes; the rest of a slot is enough for the times
RECENT = 10  # steps
LARGEST_TOTAL = 2**62
NEVER = float("inf")


class _Page:
    """This worker's page, if it has one."""

    def __init__(self) -> None:
        self.memory: mmap | None = None
        self.base = 0
        self.beats = 0
        self.step = self.highest = NO_STEP
        self.total = 0
        self.stepped_at = 0.0
        self.steps = 0
        self.fastest = self.fastest_before = NEVER  # seconds per step, in the current and the previous RECENT steps
        self.seconds = 0.0  # the smaller of the two; 0.0 while unknown
        self.flags = 0
        self.numbers = b""
        self.times = WorkTimes()
        self.tried = False

    def is_open(self) -> bool:
        """Whether the page is open. It is opened at the first call: most scripts never call."""
        return self.memory is not None or (not self.tried and self.open())

    def open(self) -> bool:
        self.tried = True
        # Removed, because a program that this worker starts must not use its page.
        path, _, slot = os.environ.pop("FLOTA_CHANNEL", "").rpartition(":")
        if not path or not slot.isdecimal():
            return False
        from mmap import mmap

        try:
            with open(path, "r+b", buffering=0) as file:
                memory = mmap(file.fileno(), 0)
        except (OSError, ValueError):
            return False  # the node's /proc is not visible, as in a separate container
        self.base = int(slot) * PAGE
        if len(memory) < self.base + PAGE:
            return False
        self.memory = memory
        # Nor must a process that it forks.
        os.register_at_fork(after_in_child=self.forget)
        return True

    def forget(self) -> None:
        self.memory = None
        self.tried = True

    def advance(self, step: int, now: float) -> None:
        self.times.on_step(step, now)
        if self.step >= 0 and step > self.step:
            self.record_step_time((now - self.stepped_at) / (step - self.step))
        # A step count that has gone back shows no progress until it exceeds the highest step so far.
        if step > self.highest:
            self.highest = step
            self.flags &= ~STEP_WENT_BACK
        elif step < self.step:
            self.flags |= STEP_WENT_BACK
        self.step, self.stepped_at = step, now

    def set_total(self, total: float) -> None:
        try:
            self.total = max(0, min(int(total), LARGEST_TOTAL))
        except (TypeError, ValueError, OverflowError):
            self.total = 0  # the step is reported without it

    def record_step_time(self, seconds: float) -> None:
        """Track the fastest recent step: a mean would include pauses, such as a checkpoint."""
        if self.steps == RECENT:
            self.fastest_before, self.fastest, self.steps = self.fastest, NEVER, 0
        self.steps += 1
        self.fastest = min(self.fastest, seconds)
        self.seconds = min(self.fastest, self.fastest_before)

    def set_flag(self, flag: int) -> None:
        if not self.flags & flag:
            self.flags |= flag
            self.write(monotonic())

    def enter_phase(self, name: str) -> int:
        now = monotonic()
        depth = self.times.enter(name, now)
        self.write(now)
        return depth

    def leave_phase(self, depth: int, *, complete: bool) -> None:
        now = monotonic()
        self.times.leave(depth, now, complete=complete)
        self.write(now)

    def stop_step(self) -> int | None:
        """Return the step at which this worker is asked to stop, NO_STEP for now; None if it is not asked to stop."""
        memory = self.memory
        if memory is None:
            return None
        (word,) = unpack_from(STOP, memory, self.base + STOP_AT)
        return int(word) - STEP_0 if word else None

    def write(self, now: float) -> None:
        memory = self.memory
        assert memory is not None
        self.times.opened = self.times.opened or now
        times, numbers = self.times.pack(), self.numbers
        fields = (
            pack(FIELDS, self.flags, len(times), len(numbers), now, self.step, self.seconds, self.total)
            + times
            + numbers
        )
        written = pack(CHECKSUM, crc32(fields)) + fields
        self.beats += 1
        slot = self.base + SLOTS[self.beats % 2]
        memory[slot : slot + len(written)] = written


_page = _Page()


def heartbeat(step: int | None = None, total: int | None = None, **numbers: float) -> None:
    """Report that this worker is alive, with its step, the number of steps in total, and any numbers. Never blocks and
    never raises.

    With `on_stop`, the call at the agreed step runs the callbacks and exits.
    """
    if not _page.is_open():
        return
    try:
        now = monotonic()
        if step is not None:
            _page.advance(int(step), now)
        if total is not None:
            _page.set_total(total)
        _page.numbers = _pack_numbers(numbers) if numbers else b""
        _page.write(now)
    except Exception:  # noqa: S110  a wrong argument must not stop the training
        pass
    if _page.flags & WANTS_SIGNAL and _has_reached_stop_step():
        from flota.worker.stop_callbacks import exit_worker

        exit_worker()


def should_stop() -> bool:
    """Whether this worker is asked to save its state and exit. It becomes true at the same step on all ranks, if they
    report their steps with `heartbeat`.
    """
    if not _page.is_open():
        return False
    _page.set_flag(POLLS)
    stop_step = _page.stop_step()
    if stop_step is None or (stop_step != NO_STEP and _page.step < stop_step and not _page.flags & STEP_WENT_BACK):
        return False
    if _page.flags & WANTS_SIGNAL:
        from flota.worker.stop_callbacks import run_callbacks

        run_callbacks()
    return True


def _has_reached_stop_step() -> bool:
    """Whether `heartbeat` must stop the worker. A worker that polls `should_stop` is stopped one step later."""
    stop_step = _page.stop_step()
    if stop_step is None:
        return False
    if _page.flags & POLLS:
        return stop_step != NO_STEP and _page.step > stop_step
    return _page.step >= stop_step or bool(_page.flags & STEP_WENT_BACK)


def reset() -> None:
    """Open the page again, in a fork that is a worker with variables of its own."""
    global _page  # noqa: PLW0603
    _page = _Page()


def _pack_numbers(numbers: dict[str, float]) -> bytes:
    """Encode as many numbers as fit. Tensors are skipped: reading one from a device would block."""
    from numbers import Real

    parts = bytearray()
    for name, value in numbers.items():
        if isinstance(value, Real):
            key = name.encode()[:LONGEST_NAME]
            part = bytes((len(key),)) + key + pack("=d", value)
            if len(parts) + len(part) > LARGEST_NUMBERS:
                break
            parts += part
    return bytes(parts)
