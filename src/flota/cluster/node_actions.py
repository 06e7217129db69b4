"""What a node's part in the job can ask of it, in its own order. Pure."""

from __future__ import annotations

from flota.cluster.job_state import JobState
from flota.job.report import JobEnding
from flota.values import NamedTuple


class Offer(NamedTuple):
    """Take fresh ports for this round, and say so with `offered`."""

    round: int


class Begin(NamedTuple):
    """Start the workers of this round, from this seat."""

    job_state: JobState
    seat: int


class Recall(NamedTuple):
    """Stop the workers; `swept` when they are gone."""


class Release(NamedTuple):
    """The job has ended well: let the workers that only serve end; `swept` when they are gone."""


class Answer(NamedTuple):
    """Say with `answers`, at once, that this node is here: somebody has failed."""


class Testify(NamedTuple):
    """Say with `testified` what is known of the workers of the round, which are gone."""


class LookAtWorkers(NamedTuple):
    """Say with `stands` whether the workers can end by themselves, and how far they are."""


class Yield(NamedTuple):
    """Ask the workers to save and end by themselves, at this step; `swept` when they are gone."""

    step: int


class TakeStacks(NamedTuple):
    """Say with `stacked` where the ranks of this node stand; with `cannot_see` if they must be aborted for it."""


class Abort(NamedTuple):
    """Abort the workers for their stacks, and say with `stacked` where they stood."""


class GoOn(NamedTuple):
    """The job does not hang: watch the workers as before."""


class Look(NamedTuple):
    """Say with `looked` where the ranks of this node stand, which go on."""


class Leave(NamedTuple):
    """The job has ended for this node, in this way."""

    ending: JobEnding


Order = (
    Offer
    | Begin
    | Recall
    | Release
    | Answer
    | Testify
    | LookAtWorkers
    | Yield
    | TakeStacks
    | Abort
    | GoOn
    | Look
    | Leave
)
