"""What a node's part in the job can ask of it, in its own order. Pure."""

from __future__ import annotations

from flota.cluster.job_state import JobState
from flota.job.report import JobEnding
from flota.job.survey import Question
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
    """The job has succeeded: let the workers that only serve end; `swept` when they are gone."""


class AnswerQuestion(NamedTuple):
    """Say with `reply` what this node knows. Put when the question is heard, and again when its workers are gone."""

    question: Question
    workers_gone: bool


class ResumeRound(NamedTuple):
    """What was asked has no consequence: watch the workers as before."""


class Leave(NamedTuple):
    """The job has ended for this node, in this way."""

    ending: JobEnding


NodeAction = Offer | Begin | Recall | Release | AnswerQuestion | ResumeRound | Leave
