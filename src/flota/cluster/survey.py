"""Surveys: the coordinator puts a question into the job state, every node answers in its record, and the question's
function decides what follows.

A feature that needs all nodes has a question (pure: what is asked, and how to decide), a function with which a node
answers, and one row in cluster/questions.py. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from flota.job.survey_outcomes import Outcome, Question
from flota.values import NamedTuple

if TYPE_CHECKING:
    from flota.cluster.coordinator import Coordinator
    from flota.cluster.job_state import JobState
    from flota.cluster.multi_node import MultiNode
    from flota.cluster.node_record import Present
    from flota.cluster.terms import Terms
    from flota.cluster.view import View


class QuestionRow(NamedTuple):
    """One kind of question. `urgent`: nothing else is decided until it is closed. The others are asked on request,
    while the round runs, and are dropped when something urgent happens.
    """

    kind: str
    body: type  # of an answer
    is_sound: Callable[[Any], bool]  # what other nodes send is printed on terminals
    decide: Callable[[Survey], Outcome]
    answer: Callable[[MultiNode, Question, bool], None]  # the last argument: whether the workers are gone
    urgent: bool
    ends_round: bool = False  # a node stops its workers once it has answered


class Survey(NamedTuple):
    """One question, and the answers so far. The seats of the round are `job.seats`."""

    question: Question
    job: JobState
    terms: Terms
    present: dict[str, Present]  # nodes of the round whose records are of this round
    answers: dict[str, Any]  # bodies, by node
    heard_at: dict[str, float]  # when each answer was first seen
    lost: Collection[str]
    done: Collection[str]  # nodes whose workers have all succeeded
    asked_at: float
    now: float
    epoch: float | None  # added to the coordinator's clock gives the time of day; None: another coordinator has asked
    late_after: float  # seconds after which a silent node is lost, not slow

    @property
    def nodes(self) -> list[str]:
        return [seat.node for seat in self.job.seats]


def take_survey(coordinator: Coordinator, question: Question, answers: dict[str, Any], view: View) -> Survey:
    return Survey(
        question,
        coordinator.job_state,
        coordinator.terms,
        {one.node: one for one in view.of_round},
        answers,
        coordinator.heard_at,
        [row.node for row in view.lost],
        coordinator.done,
        coordinator.asked_at,
        view.now,
        coordinator.epoch if coordinator.asked_here else None,
        coordinator.admission.longest_stale + coordinator.terms.absence,
    )
