"""The ledger of any events, in any order and damaged in any way: it never raises, and labels sum to the wall time."""

from __future__ import annotations

import json
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from flota.ledger.history import read_node
from flota.ledger.ledger import ledger_as_dict, make_ledger
from flota.ledger.ledger_text import ledger_in_words
from flota.ledger.page import PageTimes
from flota.ledger.read_logs import find_ledger
from flota.ledger.seats import seatings_of

EXAMPLES = 5000 if os.environ.get("FLOTA_SOAK") else 400
TIMES = st.floats(0, 100) | st.floats() | st.integers()
STEPS = st.integers(-2, 30) | st.integers()
JUNK = st.none() | st.booleans() | st.text(max_size=5) | TIMES | st.lists(st.integers(), max_size=2)
PAGES = st.fixed_dictionaries(
    {},
    optional={
        name: STEPS if name.endswith("_step") else JUNK if name in ("phase", "went_back") else TIMES
        for name in PageTimes._fields
        if name != "phases"
    }
    | {"phases": st.dictionaries(st.sampled_from(["checkpoint", "step", "hang", "x"]), TIMES, max_size=3) | JUNK},
)
RANKS = st.integers(0, 2)
KINDS = (
    *("job_started", "round_started", "worker_started", "start_failed", "worker_exited", "progress", "hang_found"),
    *("stopping_workers", "waiting_for_nodes", "waiting_as_spare", "job_ended", "anything"),
)
FACTS = {
    "monotonic": st.floats(1, 100),
    "node": st.sampled_from(["a", "b"]),
    "began": TIMES,
    "at": TIMES,
    "round": st.integers(0, 3) | JUNK,
    "workers": st.integers(0, 5) | JUNK,
    "nodes": st.integers(1, 3),
    "called_at": TIMES | JUNK,
    "rank": RANKS | JUNK,
    "role": st.sampled_from(["trainer", "server"]),
    "code": st.sampled_from([0, 1, -9]) | JUNK,
    "asked_to_stop": st.booleans() | JUNK,
    "ignored": st.booleans(),
    "times": PAGES | JUNK,
    "ranks": st.lists(st.builds(lambda rank, page: {"rank": rank, **page}, RANKS, PAGES) | JUNK, max_size=3) | JUNK,
    "quiet_seconds": TIMES | JUNK,
    "import_seconds": TIMES | JUNK,
    "imported_at": TIMES | JUNK,
    "report": st.fixed_dictionaries({"restarts": st.lists(st.fixed_dictionaries({"round": RANKS}) | JUNK) | JUNK})
    | JUNK,
}
EVENTS = st.fixed_dictionaries({"event": st.sampled_from(KINDS)}, optional={**FACTS, "monotonic": TIMES | JUNK})
# Damage is more telling in a job that makes sense: these are mostly numbered, and mostly have what they need.
LIKELY = st.fixed_dictionaries(
    {name: FACTS[name] for name in ("monotonic", "rank", "code", "times", "round", "asked_to_stop")}
    | {"event": st.sampled_from(KINDS)}
)
NODES = st.lists(st.lists(LIKELY | EVENTS, max_size=25), min_size=1, max_size=3)
NOW = st.none() | st.floats(0, 200)


@settings(max_examples=EXAMPLES, deadline=None)
@given(NODES, NOW)
def test_labels_sum_to_the_wall_time_of_each_rank(histories, now):
    nodes = [node for events in histories if (node := read_node(events, now=now))]

    ledger = make_ledger(nodes)

    seated = [max(0, one.node.ended - one.node.began) for node in nodes for one in seatings_of(node)]
    known = [row.wall for row in make_ledger(nodes, adds_missing=False).ranks]
    assert sum(known) == sum(seated)
    assert sorted(known) == sorted(seated) or any(times.called for node in nodes for times in node.rounds.values())
    assert all(amount > 0 for row in ledger.ranks for amount in row.spent.values()) or not ledger.wall
    assert sum(ledger.spent.values()) == sum(row.wall for row in ledger.ranks)
    assert ledger.goodput is None or 0 <= ledger.goodput <= 1
    json.dumps(ledger_as_dict(ledger), allow_nan=False)
    assert ledger_in_words("j", ledger)


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(st.lists(EVENTS.map(json.dumps) | st.text(max_size=20), max_size=20), st.binary(max_size=50))
def test_any_file_is_read(tmp_path_factory, lines, damage):
    directory = tmp_path_factory.mktemp("log")
    (directory / "events.a.jsonl").write_bytes("\n".join(lines).encode(errors="replace") + damage)

    found = find_ledger([str(directory)])

    assert found is None or found[1].wall >= 0
