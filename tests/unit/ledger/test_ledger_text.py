"""What `flota report` prints."""

from __future__ import annotations

from flota.ledger.history import SECOND
from flota.ledger.ledger import Ledger, RankLedger, RestartCost
from flota.ledger.ledger_text import ledger_in_words
from tests.unit.ledger.scripted import Node, ledger_of

GOOD = {"step": 90 * SECOND, "checkpoint": 10 * SECOND}
BAD = {"import": 10 * SECOND, "step": 60 * SECOND, "stalled": 30 * SECOND}


def test_a_job_with_steps():
    ranks = RankLedger("trainer", 0, "gpu01", GOOD), RankLedger("trainer", 1, "gpu02", BAD)
    cost = {"lost work": 8 * SECOND, "restart": 2 * SECOND}
    restart = RestartCost(0, 42 * SECOND, "rank 1 ValueError", 2, cost)

    assert ledger_in_words("big", Ledger("ended", ranks, (restart,), 0, frozenset(["trainer"]), "stopped")) == [
        "job big: ended after 1m40s (stopped), 2 ranks",
        "goodput: 75.0% of the time was spent in steps that count",
        "",
        "            seconds per rank   share",
        "import                   5.0    5.0%",
        "step                    75.0   75.0%",
        "checkpoint               5.0    5.0%",
        "stalled                 15.0   15.0%",
        "total                  100.0  100.0%",
        "",
        "ranks with the smallest share of steps:",
        "  rank 1 on gpu02: 60.0% (stalled 30.0 s, import 10.0 s)",
        "  rank 0 on gpu01: 90.0% (checkpoint 10.0 s)",
        "",
        "restarts, per rank:",
        "  after 0m42s, rank 1 ValueError: 5.0 s (lost work 4.0 s, restart 1.0 s)",
    ]


def test_a_job_without_steps_of_which_a_node_is_missing():
    ranks = RankLedger("trainer", 0, "a", {"running": SECOND}), RankLedger("trainer", 1, "", {"unknown": SECOND})

    lines = ledger_in_words("j", Ledger("killed", ranks, (), 1, frozenset()))

    assert lines[:2] == [
        "job j: killed: known for 1.0 s, 2 ranks",
        "goodput: unknown, because no rank reported steps (flota.heartbeat)",
    ]
    assert lines[-1] == "1 of 2 ranks left no events: give the log directories of all nodes"


def test_nothing_is_divided_by_zero():
    assert ledger_in_words("j", Ledger("killed", (RankLedger("trainer", 0, "", {}),), (), 0, frozenset(["trainer"])))


def test_unknown_ranks_are_named_and_are_neither_goodput_nor_the_worst():
    node = Node(nodes=2)
    node.begin(0.0, workers=4)
    for rank in (0, 1):
        node.start(0.0, rank)
        node.exit(10.0, rank, opened=1.0, first_at=2.0, first_step=0, last_step=8, last_at=10.0, step_seconds=8.0)
    node.end(10.0)

    lines = ledger_in_words("j", ledger_of(node))

    assert "goodput: 80.0% of the time was spent in steps that count, 2 unknown ranks left out" in lines
    assert not [line for line in lines if "smallest share" in line]
