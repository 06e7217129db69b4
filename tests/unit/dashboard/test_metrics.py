import re

import pytest

from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodeStatus, RankStatus
from flota.dashboard.metrics import JobCounters, cause_of, metrics_of
from flota.dashboard.snapshot import take_snapshot


@pytest.mark.parametrize(
    ("reason", "lost", "cause"),
    [
        ("rank 7 RuntimeError", [], "RuntimeError"),
        ("rank 12 SIGKILL", [], "SIGKILL"),
        ("server 3 exit code 1", [], "exit code"),
        ("node gpu02 lost", ["gpu02"], "node lost"),
        ("gpu02 left; replaced by the spare gpu-b", [], "left"),
        ("gpu-a is evicted: the steps of rank 3 take 2.0 times as long as", [], "node evicted"),
        ("", [], "unknown"),
    ],
)
def test_a_cause_does_not_name_ranks_or_nodes(reason, lost, cause):
    assert cause_of({"reason": reason, "lost": lost}) == cause


def restart(number, reason="rank 7 RuntimeError"):
    return {"round": number, "reason": reason, "lost": []}


def test_restarts_are_counted_although_only_the_last_ones_are_known():
    counters = JobCounters()
    for last in range(1, 200):
        known = range(max(0, last - 50), last)
        counters.note_restarts([restart(one, f"rank {one} {'SIGSEGV' if one % 2 else 'SIGKILL'}") for one in known])

    assert counters.restarts == {"SIGKILL": 100, "SIGSEGV": 99}


def test_nodes_that_join_and_leave_are_counted():
    counters = JobCounters()
    counters.note_earlier(1)
    for places in ({"a", "b"}, {"a"}, {"a", "c", "d"}):
        counters.note_places({(one, "") for one in places})

    assert (counters.joined, counters.lost) == (5, 2)


def values_of(snapshot, counters):
    """The lines of /metrics as a dictionary, without the job's label."""
    text = re.sub(r'job_id="j",?|,job_id="j"', "", metrics_of(snapshot, counters).decode()).replace("{}", "")
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_metrics_tell_what_the_snapshot_has():
    pytest.importorskip("prometheus_client")
    nodes = (
        NodeStatus("a", 1, 0, ranks=(RankStatus(0, state="running", step=7, step_seconds=0.5),), store_seconds=0.002),
        NodeStatus("b", 1, 1, ranks=(RankStatus(1, state="failed", step=9, step_seconds=1.5),)),
    )
    snapshot = take_snapshot(JobAnswer(JobStatus(1, "j", "running", 3), nodes, (("c", "no answer"),)), {}, 0.0)
    ledger = {"goodput": 0.75, "unknown_ranks": 2, "seconds": {"step": 30.0, "lost work": 2.5}}
    counters = JobCounters()
    counters.note_restarts([restart(0), restart(1), restart(2, "rank 1 SIGKILL")])
    counters.joined, counters.lost = 4, 1

    found = values_of({**snapshot, "ledger": ledger}, counters)

    expected = {
        'flota_workers{state="running"}': "1.0",
        'flota_workers{state="failed"}': "1.0",
        "flota_nodes": "3.0",
        "flota_nodes_silent": "1.0",
        "flota_round": "3.0",
        'flota_restarts_total{cause="RuntimeError"}': "2.0",
        'flota_restarts_total{cause="SIGKILL"}': "1.0",
        "flota_node_joins_total": "4.0",
        "flota_node_losses_total": "1.0",
        'flota_store_request_seconds{node="0"}': "0.002",
        "flota_step": "7.0",
        "flota_step_longest_seconds": "1.5",
        'flota_rank_step_seconds{rank="0",role="trainer"}': "0.5",
        "flota_goodput_ratio": "0.75",
        "flota_unknown_ranks": "2.0",
        'flota_time_seconds{label="step"}': "30.0",
        'flota_time_seconds{label="lost work"}': "2.5",
    }
    assert {name: found.get(name) for name in expected} == expected
