"""What the coordinator sees at one moment. Pure."""

from typing import Any

from flota.cluster.node_record import Present
from flota.job.roster import Seat
from flota.job.survey_outcomes import Question
from flota.values import NamedTuple


class View(NamedTuple):
    records: list[Present]
    present: list[Present]  # nodes that take part
    of_round: list[Present]  # nodes with a seat whose records are of this round
    failed: list[Present]  # those of them that have failed
    lost: list[Seat]
    now: float
    trusting: bool  # a missing record means that its node is lost


def answers_to(question: Question, view: View) -> dict[str, Any]:
    """The bodies of the answers so far, by node."""
    return {one.node: one.body for one in view.of_round if one.answers(question)}
