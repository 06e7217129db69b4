from datetime import UTC, datetime

import pytest

from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodeStatus
from flota.dashboard.live_ledger import make_live_ledger
from tests.unit.ledger.scripted import Node

EPOCH = 1_800_000_000.0  # when the monotonic clocks of the nodes were 1000


def node(name, rank, pid, *, clock=0.0, nodes=2):
    """A node with one rank that does steps from 2 s on. `clock`: how far its wall clock is ahead."""
    one = Node(name, nodes=nodes)
    one.begin(0.0, workers=2)
    one.start(0.0, rank)
    one.progress(10.0, rank, opened=2.0, first_at=2.0, first_step=0, last_step=8, last_at=10.0, step_seconds=8.0)
    for event in one.events:
        at = EPOCH + clock + event["monotonic"] - 1000.0
        event |= {"time": datetime.fromtimestamp(at, UTC).isoformat(), "flota_pid": pid}
    return one.events


def answer(now, *nodes, missing=()):
    job = JobStatus(1, "j", "running", now=EPOCH + now)
    return JobAnswer(job, tuple(NodeStatus(host, pid, seat) for seat, (host, pid) in enumerate(nodes)), missing)


def test_the_goodput_of_two_nodes_is_that_of_all_their_ranks():
    ledger = make_live_ledger([node("a", 0, 7), node("b", 1, 8)], answer(10.0, ("a", 7), ("b", 8)))

    assert ledger.goodput == pytest.approx(0.8)
    assert (ledger.missing, len(ledger.ranks)) == (0, 2)


def test_ranks_of_nodes_without_events_are_unknown_and_do_not_lower_the_goodput():
    ledger = make_live_ledger([node("a", 0, 7)], answer(10.0, ("a", 7), missing=(("b", "no token"),)))

    assert ledger.goodput == pytest.approx(0.8)
    assert ledger.missing == 1 and "unknown" in ledger.spent


@pytest.mark.parametrize("clock", [-3600.0, 3600.0])
def test_a_wrong_clock_of_another_node_does_not_matter(clock):
    ledger = make_live_ledger([node("a", 0, 7), node("b", 1, 8, clock=clock)], answer(20.0, ("a", 7), ("b", 8)))

    assert [row.wall / 1e6 for row in ledger.ranks] == [20.0, 20.0]


def test_a_node_that_is_gone_counts_until_its_last_event():
    ledger = make_live_ledger([node("a", 0, 7), node("b", 1, 8)], answer(30.0, ("a", 7)))

    assert sorted(row.wall / 1e6 for row in ledger.ranks) == [10.0, 30.0]


def test_nothing_is_known_without_events():
    assert make_live_ledger([], answer(1.0, ("a", 7))) is None
