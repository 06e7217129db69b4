"""What the coordinator sees at one moment. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flota.cluster.job_state import DECIDING, RUNNING
from flota.cluster.node_record import DONE, FAILED, Present
from flota.job.roster import Seat
from flota.job.survey_outcomes import Question
from flota.values import NamedTuple

if TYPE_CHECKING:
    from flota.cluster.coordinator import Coordinator


class View(NamedTuple):
    records: list[Present]
    present: list[Present]  # nodes that take part
    of_round: list[Present]  # nodes with a seat whose records are of this round
    failed: list[Present]  # those of them that have failed
    lost: list[Seat]
    now: float
    trusting: bool  # a missing record means that its node is lost
    more_lost_at: float | None = None  # when a node whose record is missing counts as lost


def take_view(coordinator: Coordinator, records: list[Present], now: float, *, trusting: bool) -> View:
    """Also notes which nodes are done."""
    job = coordinator.job_state
    by_node = {one.node: one for one in records}
    seated = [by_node[row.node] for row in job.seats if row.node in by_node]
    of_round = [one for one in seated if one.record.round == job.round]
    runs = job.phase in (RUNNING, DECIDING)
    if runs:
        coordinator.done.update(one.node for one in of_round if one.record.state == DONE)
    lost = coordinator.lost_nodes.find(job.seats, by_node, coordinator.done, now) if trusting else []
    failed = [one for one in of_round if one.record.state == FAILED]
    more_lost_at = coordinator.lost_nodes.deadline if trusting and runs else None
    return View(records, coordinator.present, of_round, failed, lost, now, trusting, more_lost_at)


def answers_to(question: Question, view: View) -> dict[str, Any]:
    """The bodies of the answers so far, by node."""
    return {one.node: one.body for one in view.of_round if one.answers(question)}
