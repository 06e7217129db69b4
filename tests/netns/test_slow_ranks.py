"""A rank that is slower than those of other nodes."""

from __future__ import annotations

import json
import os

from tests.launching import WORKERS

SOAK = bool(os.environ.get("FLOTA_SOAK"))
SLOW = "rank 1 on host2 is slow: its steps take "
FAIR = "rank 1 on host2 is as fast as the other ranks again"
LONG = 90  # seconds: a rank must be slow, and then fast, for half a minute


def test_it_is_named_on_every_node_once_and_again_when_it_recovers(jobs):
    """The second half minute is for `make soak`; what the coordinator says then is tried in tests/unit/stragglers/test_report.py."""
    nodes = [
        node for job in jobs for node in job.start([1, 2, 3], "--nnodes 3 --nproc_per_node 1", WORKERS / "steps.py")
    ]
    for word, then in ((SLOW, "fair"), (FAIR, "finish")) if SOAK else ((SLOW, "finish"),):
        for node in nodes:
            node.wait_for(word, timeout=LONG)
        for job in jobs:
            (job.stage / then).touch()

    for job in jobs:
        assert job.codes() == [0, 0, 0]
    for node in nodes:
        assert (node.err.count(SLOW), node.err.count(FAIR)) == (1, SOAK)
        assert all(2 < factor < 3.5 for factor in factors(node))


def factors(node):
    """As told to programs: how many times as long the slow rank's steps take. It sleeps three times as long."""
    [path] = node.directory.glob("log/events.*.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event["factor"] for event in events if event["event"] == "straggler" and not event["recovered"]]
