"""Errors of snapshots, which are raised in the process of a training script."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


class UnsupportedState(TemplateError[str, str]):
    message = "flota.snapshot cannot save `{0}`: it is {1}"
    hint = "pass tensors, numbers, strings, lists, tuples, dicts, or an object with state_dict()"


class BrokenSnapshot(TemplateError[str, str]):
    message = "the snapshot in {0} cannot be read: {1}"
    hint = "remove it, or start the job without it"


class DamagedSnapshot(BrokenSnapshot):
    """Of a file that is not as it was written."""


class BadSnapshotName(TemplateError[object]):
    message = "flota.snapshot takes a name of letters, digits, `-` and `_`, not `{0!r}`"
    hint = 'write flota.snapshot("train")'


class SecondSnapshot(TemplateError[str, str]):
    message = "flota.snapshot: this worker already has the snapshot `{0}`, so it cannot have `{1}`"
    hint = "save all parts in one: snap.save(step, model=model, optim=optim, other=state)"


class BadStep(TemplateError[object], ValueError):
    message = "snap.save takes the number of steps done, a whole number of 0 or more, not `{0!r}`"
    hint = "write snap.save(step + 1, model=model)"


class PartMissing(TemplateError[str, str, str]):
    message = "the snapshot in {0} has no part `{1}`, only {2}"
    hint = "save the same parts that you load"


class WorldChanged(FlotaError):
    def __init__(self, where: str, before: int, now: int) -> None:
        words = f"the snapshot has the parts of {before} ranks, and the job has {now} now: {where}"
        hint = f"start the job with {before} workers, or pass reshard=FUNCTION to flota.snapshot"
        super().__init__(words, hint)
