"""Reads a file with states of one rank: its memory, or a file on a disk."""

from __future__ import annotations

import os

from flota.snapshots.agreement import HeldSnapshot
from flota.values import NamedTuple
from flota.worker import snapshot_layout as layout
from flota.worker.snapshot_layout import NO_STEP, PAGE, Entry


class StateFile(NamedTuple):
    """`fd` belongs to the one who opened it."""

    role: str
    rank: int
    fd: int

    def entries(self) -> list[Entry]:
        return layout.read_entries(os.pread(self.fd, PAGE, 0), os.fstat(self.fd).st_size)

    def held(self) -> HeldSnapshot | None:
        entries = self.entries()
        steps = layout.complete_steps(entries)
        if not steps:
            return None
        newest = entries[steps[max(steps)]]
        # Those of another number of ranks are not of the same course of the training.
        alike = tuple(step for step, buffer in steps.items() if entries[buffer].world == newest.world)
        return HeldSnapshot(self.role, self.rank, newest.world, bool(newest.sharded), alike)

    def forget_after(self, step: int) -> None:
        """Forget the states of later steps: the ranks go back to this one, and may not reach the same states again."""
        for buffer, entry in enumerate(self.entries()):
            if entry.step > step or entry.complete == layout.FAILED:
                self.put(buffer, entry._replace(step=NO_STEP, complete=0))

    def put(self, buffer: int, entry: Entry) -> None:
        os.pwrite(self.fd, layout.pack_entry(entry), layout.entry_at(buffer))

    def has(self, step: int) -> bool:
        return step in layout.complete_steps(self.entries())

    def begin(self, size: int) -> None:
        """Let the file grow to this size."""
        if os.fstat(self.fd).st_size < PAGE:
            os.ftruncate(self.fd, PAGE)
            os.pwrite(self.fd, layout.MAGIC, 0)
        os.ftruncate(self.fd, size)

    def fail(self, step: int) -> None:
        """A worker may wait for this state: there is none."""
        self.begin(max(os.fstat(self.fd).st_size, layout.BUFFER_ALIGNMENT))
        self.put(0, Entry(step, layout.FAILED, layout.BUFFER_ALIGNMENT))

    def keep(self, stride: int) -> None:
        """Have the worker keep the last states of steps that this divides; 0: of none."""
        if os.fstat(self.fd).st_size >= PAGE:
            os.pwrite(self.fd, layout.pack_stride(stride), layout.STRIDE_AT)
