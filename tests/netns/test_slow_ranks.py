"""A rank that is slower than those of other nodes."""

from __future__ import annotations

import os

from tests.launching import WORKERS

SOAK = bool(os.environ.get("FLOTA_SOAK"))
SLOW = "rank 1 on host2 is slow: its steps take "
FAIR = "rank 1 on host2 is as fast as the others again"
LONG = 90  # seconds: a rank must be slow, and then fast, for half a minute


def test_it_is_named_on_every_node_once_and_again_when_it_recovers(jobs):
    """The second half minute is for `make soak`; what the chair says then is tried in tests/unit/test_pacing.py."""
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
        assert "2.9 times as long" in node.err or "3.0 times as long" in node.err
