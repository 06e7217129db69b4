"""The one channel between a node and its workers: shared memory, a page for each worker.

A worker writes its last step and numbers there (worker/heartbeat.py), the node when to stop. Nobody waits for anybody:
a write is a few stores, a read a few loads. The memory has no name in any directory, so nothing of it is left behind.
"""

from __future__ import annotations

import os

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

PAGE = 4096
NAMES = 1 << 16  # behind the pages, where wanted: the modules that one worker has imported, each on a line
# A worker's half: a count that is odd while it writes, when, the step, what it listens to, the length of its numbers,
# how many seconds its fastest recent step took; then the numbers.
BEAT = "=QdqIId"
NUMBERS_AT = 40
NO_STEP = -1
# It calls should_stop(); it has a callback for SIGTERM; its steps have begun anew.
POLLS, WANTS_SIGNAL, BEHIND = 1, 2, 4
# The node's half: whether to stop, and at which step.
STOP_AT = 2048
STOP = "=Iq"
TRIES = 100


class Beat(NamedTuple):
    """What a worker last said."""

    at: float  # on the clock that never jumps; 0.0: nothing yet
    step: int
    listens: int
    seconds: float  # a step; 0.0: not known yet
    numbers: dict[str, float]


class Channel:
    """Made by the node for one round. Without memfd (macOS) there is none, and workers' calls do nothing."""

    def __init__(self, workers: int, *, names: bool = False) -> None:
        self.fd = -1
        self._names_at = workers * PAGE
        self._memory: mmap | None = None
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("flota", os.MFD_CLOEXEC)
            os.ftruncate(self.fd, workers * PAGE + (NAMES if names else 0))

    def name(self, worker: int) -> str:
        """How a worker finds its page; empty where there is none."""
        return f"/proc/{os.getpid()}/fd/{self.fd}:{worker}" if self.fd >= 0 else ""

    @property
    def memory(self) -> mmap | None:
        """Mapped at the first use: most jobs never look."""
        if self._memory is None and self.fd >= 0:
            from mmap import mmap

            self._memory = mmap(self.fd, 0)
        return self._memory

    def read(self, worker: int) -> Beat:
        from struct import unpack_from

        if self.memory is None:
            return Beat(0.0, NO_STEP, 0, 0.0, {})
        base = worker * PAGE
        for _ in range(TRIES):
            before, at, step, listens, length, seconds = unpack_from(BEAT, self.memory, base)
            numbers = bytes(self.memory[base + NUMBERS_AT : base + NUMBERS_AT + min(length, STOP_AT - NUMBERS_AT)])
            if before % 2 == 0 and unpack_from("=Q", self.memory, base)[0] == before:
                break
        else:
            numbers = b""  # it died while writing, or writes without a pause: the step is still a step
        return Beat(at, step if before else NO_STEP, listens, seconds, _read_numbers(numbers))

    def names(self) -> list[str]:
        """The modules that a worker has imported since its start."""
        if self.memory is None:
            return []
        return self.memory[self._names_at :].partition(b"\0")[0].decode(errors="replace").splitlines()

    def tell_to_stop(self, worker: int, step: int = NO_STEP) -> None:
        """At this step, or at once."""
        from struct import pack_into

        if self.memory is not None:
            pack_into("=q", self.memory, worker * PAGE + STOP_AT + 4, step)
            pack_into("=I", self.memory, worker * PAGE + STOP_AT, 1)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _read_numbers(data: bytes) -> dict[str, float]:
    """Pairs of a name, with its length before it, and a number."""
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
