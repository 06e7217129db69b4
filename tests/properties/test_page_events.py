"""What the page makes of any events, in any order and damaged in any way: it never raises, and is valid JSON."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodeStatus
from flota.dashboard.curves import curves_of
from flota.dashboard.live_ledger import make_live_ledger
from flota.dashboard.node_events import NodeEvents, nodes_of
from flota.dashboard.timeline import timeline_of
from tests.properties.test_ledger import EVENTS, EXAMPLES, JUNK, LIKELY, TIMES

MORE = {
    "time": st.sampled_from(["2026-01-01T00:00:05Z", "2026-01-01T00:00:50Z", "x", ""]) | JUNK,
    "flota_pid": st.integers(1, 2) | JUNK,
    "suspects": JUNK,
    "devices": JUNK,
    "attempt": JUNK,
    "seconds": TIMES | JUNK,
    "numbers": st.dictionaries(st.text(max_size=3), TIMES | JUNK, max_size=3) | JUNK,
}
FILES = st.lists(
    st.lists(st.builds(lambda one, more: {**one, **more}, LIKELY | EVENTS, st.fixed_dictionaries(MORE)), max_size=20),
    max_size=3,
)
ANSWER = JobAnswer(JobStatus(1, "j", "running", now=1767225700.0), (NodeStatus("a", 1), NodeStatus("b", 2, 1)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(FILES)
def test_any_events_become_a_page(histories):
    files = []
    for events in histories:
        files.append(NodeEvents())
        files[-1].feed("".join(f"{json.dumps(event)}\n" for event in events).encode())

    nodes = nodes_of(files)

    json.dumps(timeline_of(nodes), allow_nan=False)
    json.dumps(curves_of(nodes).as_dict(), allow_nan=False)
    ledger = make_live_ledger(nodes, ANSWER)
    assert ledger is None or sum(ledger.spent.values()) == sum(row.wall for row in ledger.ranks)
