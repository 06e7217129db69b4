"""The channel between a node and its workers: shared memory, one page per worker.

A worker writes its last step and numbers there (host/heartbeat_page.py); the node writes when to stop. Neither side
waits: a write is a few stores, a read is a few loads, and neither depends on memory ordering between processors. The
memory has no name in any directory, so nothing is left behind.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

    from flota.host.heartbeat_page import Heartbeat

PAGE = 4096
MODULE_LIST_SIZE = 1 << 16  # after the pages, if requested: the modules that one worker has imported, one per line
NO_STEP = -1
# The node writes one machine word, which is atomic: 0 to continue, 1 to stop now, STEP_0 + N to stop at step N.
STOP_AT = 4080
STOP = "q"
STEP_0 = 2


class Channel:
    """Created by the node for one round. Without memfd (macOS) there is no memory, and heartbeats do nothing."""

    def __init__(self, workers: int, *, module_list: bool = False) -> None:
        self.fd = -1
        self._module_list_at = workers * PAGE
        self._memory: mmap | None = None
        if hasattr(os, "memfd_create"):
            from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, fcntl

            self.fd = os.memfd_create("flota", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.fd, workers * PAGE + (MODULE_LIST_SIZE if module_list else 0))
            # A worker can open the file: if it could truncate it, the next read here would end the node with SIGBUS.
            fcntl(self.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

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
        from flota.host.heartbeat_page import NO_HEARTBEAT, read_mapped

        return NO_HEARTBEAT if self.memory is None else read_mapped(self.memory, worker * PAGE)

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
