"""The ledger of a whole job: several nodes, restarts, and nodes of which nothing is known."""

from __future__ import annotations

import pytest

from flota.ledger.history import SECOND
from flota.ledger.ledger import ledger_as_dict
from tests.unit.ledger.scripted import Node, ledger_of, seconds


def run_two_nodes() -> tuple[Node, Node]:
    """Rank 1, on node b, fails 10 s after the start of the round. Node a stops its rank 2 s later. The second round has
    only node b's ranks, in other places. The clocks of the nodes differ by 500 s."""
    one, other = Node("a", nodes=2), Node("b", nodes=2)
    one.begin(5.0)
    one.start(5.0, 0)
    one.add(17.0, "stopping_workers")
    one.exit(17.5, 0, -15, asked=True)
    one.end(18.0)
    other.begin(505.0, began=501.0)
    other.start(505.0, 1)
    other.exit(515.0, 1, 3)
    other.round(516.0, 1, workers=1)
    other.start(516.0, 0)
    other.exit(520.0, 0)
    other.end(520.0)
    return one, other


def test_a_rank_is_stalled_by_the_failure_of_one_on_another_node():
    row = ledger_of(*run_two_nodes()).ranks[0]

    assert row.node == "a"
    assert seconds(row) == {"wait for nodes": 5.0, "running": 10.0, "stalled": 2.0, "stopping": 1.0}


def test_without_the_other_nodes_events_less_is_known():
    one, _ = run_two_nodes()

    known, missing = ledger_of(one).ranks

    assert seconds(known) == {"wait for nodes": 5.0, "running": 12.0, "stopping": 1.0}
    assert (missing.rank, seconds(missing)) == (1, {"unknown": 18.0})
    assert ledger_of(one).missing == 1


def test_a_place_keeps_its_time_when_its_rank_changes():
    row = ledger_of(*run_two_nodes()).ranks[1]

    assert (row.node, row.rank, row.wall) == ("b", 0, 19 * SECOND)


def test_a_row_of_each_rank_sums_to_its_wall_time():
    ledger = ledger_of(*run_two_nodes())

    assert [row.wall for row in ledger.ranks] == [18 * SECOND, 19 * SECOND]
    assert sum(ledger.spent.values()) == 37 * SECOND
    assert ledger.wall == 19 * SECOND


def steps(opened: float, first: int, last: int, at: float) -> dict[str, object]:
    """A step per second, the first one a second after `opened`."""
    begins = opened + 1.0
    spent = {"step_seconds": float(last - first), "first_step": first, "last_step": last}
    return {"opened": opened, "first_at": begins, "last_at": at, "marked_at": at, **spent}


def test_a_restart_costs_lost_work_and_a_new_start():
    node = Node()
    node.begin(0.0, workers=1)
    node.start(0.0, 0)
    node.exit(12.5, 0, 3, **steps(1.0, 0, 10, 12.0))
    node.round(14.0, 1, workers=1)
    node.start(14.0, 0)
    node.exit(30.0, 0, **steps(16.0, 4, 16, 29.0))
    node.end(30.0)

    ledger = ledger_of(node)
    (one,) = ledger.restarts

    assert (one.round, one.at, one.reason, one.ranks) == (0, 12_500_000, "rank 0 exit code 3", 1)
    assert {name: amount / SECOND for name, amount in one.spent.items()} == {
        "import": 2.0,
        "initialise": 1.0,
        "lost work": 6.5,
        "restart": 1.5,
    }
    assert one.mean == 11 * SECOND


def test_steps_that_were_lost_twice_are_counted_from_the_lowest():
    node = Node()
    node.begin(0.0, workers=1)
    for number, first in ((0, 0), (1, 5), (2, 0)):
        node.round(20.0 * number, number, workers=1)
        node.start(20.0 * number, 0)
        began = 20.0 * number + 1.0
        node.exit(20.0 * number + 12.0, 0, 3 * (number < 2), **steps(began, first, first + 10, began + 11.0))
    node.end(52.0)

    assert seconds(ledger_of(node))["lost work"] == 20.0


def test_reasons_are_those_of_the_report():
    node = Node()
    node.begin(0.0, workers=1)
    node.start(0.0, 0)
    node.exit(5.0, 0, 1)
    node.round(6.0, 1, workers=1)
    node.start(6.0, 0)
    node.exit(8.0, 0)
    node.add(
        8.0, "job_ended", report={"restarts": [{"round": 0, "reason": "rank 0 ValueError"}], "reason": "out of time"}
    )

    ledger = ledger_of(node)
    assert (ledger.restarts[0].reason, ledger.ended_by) == ("rank 0 ValueError", "out of time")


def test_programs_get_the_same_numbers():
    node = Node()
    node.begin(0.0, workers=1)
    node.start(0.5, 0)
    node.exit(10.0, 0, **steps(1.0, 0, 7, 9.0))
    node.end(10.0)

    data = ledger_as_dict(ledger_of(node))

    assert data["seconds"] == data["ranks"][0]["seconds"]
    assert sum(data["seconds"].values()) == pytest.approx(data["wall_seconds"])
    assert data["goodput"] == pytest.approx(0.8)
    assert (data["state"], data["unknown_ranks"], data["restarts"]) == ("ended", 0, [])


def test_without_steps_goodput_is_unknown():
    node = Node()
    node.begin(0.0, workers=1)
    node.start(0.5, 0)
    node.end(10.0)

    assert ledger_of(node).goodput is None


def test_ranks_that_never_started_have_the_time_of_their_node():
    node = Node("a")
    node.begin(1.0)
    node.end(5.0)

    ledger = ledger_of(node)

    assert [row.wall for row in ledger.ranks] == [5 * SECOND] * 2
