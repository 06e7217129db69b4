"""From the worker's side of the channel: its step and numbers to the node, and the node's wish that it stop."""

from __future__ import annotations

import os
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap

# As in host/channel.py, which has the layout's description.
PAGE, NUMBERS_AT, STOP_AT = 4096, 40, 2048
RECENT = 0.2  # of the last step in the average
NO_STEP = -1
POLLS, WANTS_SIGNAL = 1, 2
LONGEST_NAME = 255


class _Page:
    """This worker's own, or nothing to write to."""

    def __init__(self) -> None:
        self.memory: mmap | None = None
        self.base = 0
        self.count = 0
        self.step = NO_STEP
        self.stepped_at = 0.0
        self.seconds = 0.0  # a step, on average
        self.listens = 0
        self.tried = False

    def open(self) -> mmap | None:
        self.tried = True
        path, _, slot = os.environ.get("FLOTA_CHANNEL", "").rpartition(":")
        if not path or not slot.isdigit():
            return None
        from mmap import mmap

        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None  # in a container of its own, say: then nobody listens
        try:
            self.memory = mmap(fd, 0)
        except (OSError, ValueError):
            return None
        finally:
            os.close(fd)
        self.base = int(slot) * PAGE
        # A child that this worker forks is not this worker.
        os.register_at_fork(after_in_child=self.forget)
        return self.memory

    def forget(self) -> None:
        self.memory = None
        self.tried = True

    def advance(self, step: int) -> None:
        now = monotonic()
        if self.step >= 0 and step > self.step:
            took = (now - self.stepped_at) / (step - self.step)
            self.seconds += (took - self.seconds) * RECENT if self.seconds else took
        self.step, self.stepped_at = step, now

    def write(self, numbers: bytes) -> None:
        memory = self.memory
        assert memory is not None
        from struct import pack_into

        base = self.base
        self.count += 1
        pack_into("=Q", memory, base, self.count)
        memory[base + NUMBERS_AT : base + NUMBERS_AT + len(numbers)] = numbers
        pack_into("=dqIId", memory, base + 8, monotonic(), self.step, self.listens, len(numbers), self.seconds)
        self.count += 1
        pack_into("=Q", memory, base, self.count)


_page = _Page()
_callbacks: list[Callable[[], object]] = []


def heartbeat(step: int | None = None, **numbers: float) -> None:
    """Say that this worker is alive, which step it has come to, and any numbers. Never waits, never raises."""
    if _page.memory is None and (_page.tried or _page.open() is None):
        return
    try:
        if step is not None:
            _page.advance(int(step))
        _page.write(_packed(numbers) if numbers else b"")
    except Exception:  # noqa: S110  training must go on, whatever was passed
        pass


def should_stop() -> bool:
    """Whether this worker shall save what it has and end: all ranks hear it at the same step, if they tell their steps
    by `heartbeat`.
    """
    memory = _page.memory
    if memory is None and (_page.tried or _page.open() is None):
        return False
    memory = _page.memory
    assert memory is not None
    if not _page.listens & POLLS:
        _page.listens |= POLLS
        _page.write(b"")
    from struct import unpack_from

    told, step = unpack_from("=Iq", memory, _page.base + STOP_AT)
    return bool(told) and (step == NO_STEP or _page.step >= step)


def on_stop(callback: Callable[[], object]) -> None:
    """Call this when the worker shall stop, in its main thread; afterwards it ends, with exit code 0."""
    import signal

    _callbacks.append(callback)
    if len(_callbacks) == 1:
        signal.signal(signal.SIGTERM, _stop)
    if _page.memory is not None or (not _page.tried and _page.open() is not None):
        _page.listens |= WANTS_SIGNAL
        _page.write(b"")


def _stop(_number: int, _frame: object) -> None:
    while _callbacks:
        _callbacks.pop(0)()
    raise SystemExit(0)


def _packed(numbers: dict[str, float]) -> bytes:
    """As many as fit. What is no plain number is left out: a tensor on a device would have to be waited for."""
    from numbers import Real
    from struct import pack

    parts = bytearray()
    for name, value in numbers.items():
        if isinstance(value, Real):
            key = name.encode()[:LONGEST_NAME]
            part = bytes((len(key),)) + key + pack("=d", value)
            if len(parts) + len(part) > STOP_AT - NUMBERS_AT:
                break
            parts += part
    return bytes(parts)
