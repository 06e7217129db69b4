"""Nodes that waited as spares: their waiting does not count for any rank, and a successor continues the row of the rank."""

from __future__ import annotations

from flota.ledger.history import SECOND
from tests.unit.ledger.scripted import Node, ledger_of, seconds
from tests.unit.ledger.test_ledger import steps


def worked(
    node: Node, rank: int, began: float, ended: float, first: int, code: int = 0, *, asked: bool = False
) -> None:
    """A process that does a step per second, from a second after its start on."""
    node.start(began, rank)
    last = first + int(ended - began) - 2
    node.exit(ended, rank, code, asked=asked, **steps(began, first, last, ended))


def lose_a_node() -> tuple[Node, Node, Node]:
    """Node b is killed after 11 s; the spare c has waited since then, and is called at 20 s. All begin at 0."""
    survivor, lost, spare = (Node(name, nodes=2) for name in "abc")
    survivor.begin(0.0)
    survivor.start(0.0, 0)
    survivor.add(20.0, "stopping_workers")
    survivor.exit(21.0, 0, -15, asked=True, **steps(0.0, 0, 9, 10.0))
    survivor.round(22.0, 1)
    worked(survivor, 0, 22.0, 32.0, 0)
    survivor.end(32.0)
    lost.begin(0.0)
    lost.start(0.0, 1)
    lost.progress(11.0, 1, **steps(0.0, 0, 9, 10.0))
    spare.add(22.0, "job_started", world_size=2, pid=9, began=1000.0)
    spare.add(22.0, "round_started", round=1, attempt=0, workers=2, nodes=2, called_at=1020.0)
    worked(spare, 1, 22.0, 32.0, 0)
    spare.end(32.0)
    return survivor, lost, spare


def test_the_time_as_a_spare_does_not_count():
    _, _, spare = lose_a_node()

    (known,) = [row for row in ledger_of(spare).ranks if row.node == "c"]

    assert known.wall == 12 * SECOND
    assert seconds(known)["restart"] == 2.0 and "wait for nodes" not in seconds(known)


def test_a_spare_that_took_over_continues_the_row_of_the_rank():
    ledger = ledger_of(*lose_a_node())

    assert [(row.rank, row.node, row.wall) for row in ledger.ranks] == [(0, "a", 32 * SECOND), (1, "c", 23 * SECOND)]
    assert sum(ledger.spent.values()) == 55 * SECOND
    # Both ranks did 10 steps that count, in the second round.
    assert ledger.goodput == 2 * seconds(ledger.ranks[0])["step"] / 55
    assert seconds(ledger.ranks[0])["step"] == seconds(ledger.ranks[1])["step"]


def test_an_evicted_node_has_rows_only_for_the_time_of_its_seats():
    slow, successor = Node("a", nodes=1), Node("b", nodes=1)
    slow.begin(0.0, workers=1)
    slow.start(0.0, 0)
    slow.add(10.0, "stopping_workers")
    slow.exit(11.0, 0, -15, asked=True)
    slow.add(12.0, "waiting_as_spare")
    successor.add(13.0, "job_started", world_size=1, pid=9, began=1000.0)
    successor.add(13.0, "round_started", round=1, attempt=0, workers=1, nodes=1, called_at=1011.0)
    successor.start(13.0, 0)
    slow.add(40.0, "round_started", round=2, attempt=0, workers=1, nodes=1, called_at=1038.0)
    slow.start(40.0, 0)
    slow.exit(50.0, 0)
    slow.end(50.0)
    successor.exit(36.0, 0, -9)

    (row,) = ledger_of(slow, successor).ranks

    assert (row.node, row.wall) == ("a", (12 + 25 + 12) * SECOND)
    assert ledger_of(slow).ranks[0].wall == (12 + 12) * SECOND


def test_a_spare_that_waits_has_no_row():
    slow = Node("a", nodes=1)
    slow.begin(0.0, workers=1)
    slow.start(0.0, 0)
    slow.exit(11.0, 0, -15, asked=True)
    slow.add(12.0, "waiting_as_spare")

    assert [row.wall for row in ledger_of(slow, now=500.0).ranks] == [12 * SECOND]
