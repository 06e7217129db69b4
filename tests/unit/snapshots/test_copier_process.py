"""The node's side of its copier, without the process: what cannot be fetched, and a process that does not start."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.host.loop import Loop
from flota.job.nodes import NodesSpec
from flota.job.roster import Seat
from flota.snapshots import copier_process
from flota.snapshots.agreement import AgreedStep, RankSource
from flota.snapshots.copier_process import CHECK_INTERVAL, MOST_RESTARTS, CopierProcess, open_copier
from flota.snapshots.memory import SnapshotMemory
from flota.worker.snapshot_memory import BrokenSnapshot, open_state
from tests.unit.snapshots.test_memory import plans, save, source_of

SEATS = (Seat("here", "host1", "10.0.0.1", ()), Seat("far", "host2", "10.0.0.2", (), copier="4000"))


@pytest.fixture
def memory():
    memory = SnapshotMemory(None)
    yield memory
    memory.close()


@pytest.fixture
def said():
    return []


@pytest.fixture
def copier(memory, said):
    copier = CopierProcess(memory, Loop(), lambda *line: said.append(line), {})
    yield copier
    copier.close()


@pytest.fixture
def starts(monkeypatch):
    """The processes that were to be started, and were not."""
    tried = []

    def execute(spec, **_):
        tried.append(spec)
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(copier_process, "execute", execute)
    return tried


def begin_round(copier, memory, source):
    """Rank 0 loads the state of step 4 from a node. Returns where it finds the state."""
    [plan] = plans(0, world=1)
    memory.begin_round((plan,), (AgreedStep("trainer", 4, 1, others=(RankSource(0, 0, source),)),))
    copier.begin_round(SEATS, 0, (plan,), 0.0)
    return source_of(plan).split(":")[0]


@pytest.mark.parametrize("source", ["gone", "here"], ids=["not-in-the-round", "without-a-port"])
def test_a_worker_does_not_wait_for_a_state_that_no_node_can_give(copier, memory, starts, source):
    path = begin_round(copier, memory, source)

    assert starts == []
    with pytest.raises(BrokenSnapshot, match="state of step 4 could not be fetched"):
        open_state(path, 4)


def test_a_process_that_fails_is_tried_again_but_not_for_ever(copier, memory, starts, said):
    path = begin_round(copier, memory, "far")

    with pytest.raises(BrokenSnapshot, match="state of step 4 could not be fetched"):
        open_state(path, 4)
    while copier.deadline is not None:
        assert len(starts) <= MOST_RESTARTS
        copier.on_time(copier.deadline - CHECK_INTERVAL / 2)  # too early
        copier.on_time(copier.deadline)

    assert len(starts) == 1 + MOST_RESTARTS
    why = "snapshots: cannot start a process for copies of states: Cannot allocate memory; "
    no_more = "it was started again 3 times, so no more states are sent or written in this round"
    assert said[1:] == [("WARNING", f"{why}starting it again"), ("WARNING", why + no_more)]
    begin_round(copier, memory, "here")
    assert len(starts) == 2 + MOST_RESTARTS


def test_a_process_that_fails_at_the_end_is_not_said_to_be_started_again(memory, starts, said, tmp_path):
    copier = CopierProcess(memory, Loop(), lambda *line: said.append(line), {}, disk=(str(tmp_path), 600.0))
    [plan] = plans(0, world=1)
    memory.begin_round((plan,))
    copier.begin_round((), 0, (plan,), 0.0)
    save(plan, 4)

    copier.close()

    why = "snapshots: cannot start a process for copies of states: Cannot allocate memory; "
    assert said == [("WARNING", f"{why}the last states are not written")]
    assert (len(starts), copier.deadline) == (1, None)


@pytest.mark.parametrize(
    ("token", "tls", "listens"), [("t", "", True), ("", "", False), ("t", "user's", False), ("t", "made", True)]
)
def test_other_nodes_reach_it_only_with_a_token_and_without_tls(memory, token, tls, listens):
    """Certificates that flota makes for etcd members are not the user's wish for TLS: see the last case."""
    given = NodesSpec(tls=tls == "user's")
    spec = SimpleNamespace(address="127.0.0.1", snapshot_dir="", snapshot_every=0.0, snapshot_copies=1, nodes=given)
    node = SimpleNamespace(
        spec=spec, nodes=SimpleNamespace(tls=bool(tls)), requests=SimpleNamespace(token=token), environ={},
        console=SimpleNamespace(say=print), snapshots=memory, loop=Loop(),
    )  # fmt: skip

    copier = open_copier(node)

    assert bool(copier.port) is listens
    copier.close()
