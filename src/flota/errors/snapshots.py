"""Errors of snapshots, which are raised in the process of a training script, but for that about --snapshot_dir."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


def is_memory(where: str) -> bool:
    """Whether a state is in the memory of a rank, whose path means nothing to people. Empty: another node's."""
    return not where or where.startswith("/proc/")


class UnsupportedState(TemplateError[str, str]):
    message = "flota.snapshot cannot save `{0}`: it is {1}"
    hint = "pass tensors, numbers, strings, lists, tuples, dicts, or an object with state_dict()"


class BrokenSnapshot(FlotaError):
    """`where`: a file, or the memory of a rank, which is a file of its node's process."""

    def __init__(self, where: str, why: str) -> None:
        if where.startswith("/proc/"):
            thing, hint = (
                f"memory of the node ({where})",
                "restart the job, as --max_restart does: ranks agree on a step again",
            )
        else:
            thing, hint = f"file `{where}`", "move the file away: the job continues from an older one, or from step 0"
        super().__init__(f"cannot load a snapshot from the {thing}: {why}", hint)


class DamagedSnapshot(BrokenSnapshot):
    """The bytes of a file are not those that were written. It is renamed, so the next attempt does not find it."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.hint = "start the job again: it continues from an older step that is whole, or from step 0"


class UnwritableSnapshotDir(TemplateError[str, str]):
    message = "cannot write to the snapshot directory `{0}`: {1}"
    hint = "choose another with --snapshot_dir DIR"


class BadSnapshotName(TemplateError[object]):
    message = "flota.snapshot takes a name of letters, digits, `-` and `_`, not `{0!r}`"
    hint = 'write flota.snapshot("train")'


class SecondSnapshot(TemplateError[str, str]):
    message = "flota.snapshot: this worker already has the snapshot `{0}`, so it cannot have `{1}`"
    hint = "save all parts in one: snap.save(step, model=model, optim=optim, other=state)"


class BadStep(TemplateError[object], ValueError):
    message = "snap.save takes the number of steps done, a whole number of 0 or more, not `{0!r}`"
    hint = "write snap.save(step + 1, model=model)"


class PartMissing(FlotaError):
    def __init__(self, where: str, part: str, parts: str) -> None:
        place = "memory" if is_memory(where) else where
        hint = "save the same parts that you load"
        super().__init__(f"the snapshot in {place} has no part `{part}`, only {parts}", hint)


class WorldChanged(FlotaError):
    def __init__(self, where: str, before: int, now: int) -> None:
        numbers = f"has the parts of {before} ranks, and the job has {now} now"
        words = f"the snapshot in memory {numbers}" if is_memory(where) else f"the snapshot {numbers}: {where}"
        hint = f"start the job with {before} workers, or pass reshard=FUNCTION to flota.snapshot"
        super().__init__(words, hint)
