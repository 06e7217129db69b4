"""Asking all nodes: the coordinator puts a question into the job state, every node answers in its record, and the
question's own function says what follows.

A feature that needs all nodes brings a question (pure: what is asked, and how to decide), an answerer (a function of
the node), and one row in cluster/questions.py. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from flota.job.survey_outcomes import Outcome, Question
from flota.values import NamedTuple

if TYPE_CHECKING:
    from flota.cluster.job_state import JobState
    from flota.cluster.multi_node import MultiNode
    from flota.cluster.node_record import Present
    from flota.cluster.terms import Terms


class QuestionRow(NamedTuple):
    """One kind of question. `urgent`: nothing else is decided before it is; others are asked beside a running round, on
    request, and give way.
    """

    kind: str
    body: type  # of an answer
    is_sound: Callable[[Any], bool]  # what other nodes say goes to terminals
    decide: Callable[[Survey], Outcome]
    answer: Callable[[MultiNode, Question, bool], None]  # the last: whether the workers are gone
    urgent: bool
    ends_round: bool = False  # a node that has answered stops its workers


class Survey(NamedTuple):
    """One question and what is known of its answers. `seats` of the round are `job.seats`."""

    question: Question
    job: JobState
    terms: Terms
    present: dict[str, Present]  # nodes of the round that have a record for it
    answers: dict[str, Any]  # bodies, by node
    heard_at: dict[str, float]  # when each answer was first seen
    lost: Collection[str]
    done: Collection[str]  # have finished their part of the round
    asked_at: float
    now: float
    epoch: float | None  # makes a time of day of the coordinator's own; None: another coordinator has asked
    late_after: float  # seconds after which a silent node is surely not just slow

    @property
    def nodes(self) -> list[str]:
        return [seat.node for seat in self.job.seats]
