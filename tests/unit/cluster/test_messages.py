"""What people are told of the coordinator's job states."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.cluster.job_state import GATHERING, RUNNING, JobState, Refused
from flota.cluster.messages import ClusterMessages
from flota.job.roster import Roster, Seat
from flota.stragglers.detector import SlowRank
from tests.rosters import ports_of

HOST3 = {"n3": Refused("host3", "the job already has all 2 nodes")}
SLOW = SlowRank(5, "gpu1", 2.1)


@pytest.fixture
def told():
    """What is said of job states that come in one go, after others."""
    said = []
    spec = SimpleNamespace(log=SimpleNamespace(shared_console=False))
    console = SimpleNamespace(say=lambda _level, text: said.append(text), event=lambda *_, **__: None)
    console.spec, console.own_log = spec, SimpleNamespace()
    messages = ClusterMessages(console, None)

    def tell(*job_states):
        said.clear()
        follower = SimpleNamespace(name="n1", ending=None, working=True, job_state=job_states[-1])
        messages.report(
            SimpleNamespace(
                follower=follower, new_states=list(job_states), coordinator=None, silent_since=None, failing_since=None
            ),
            0.0,
        )
        return list(said)

    return tell


def test_a_job_state_that_comes_with_the_one_before_it_does_not_hide_it(told):
    assert told(JobState(RUNNING), JobState(RUNNING, refused=HOST3), JobState(RUNNING)) == [
        "host3 was refused: the job already has all 2 nodes"
    ]


def test_slow_ranks_are_reported_once_and_again_when_they_recover(told):
    assert told(JobState(RUNNING), JobState(RUNNING, slow=(SLOW,)), JobState(RUNNING, slow=(SLOW,), refused=HOST3)) == [
        "rank 5 on gpu1 is slow: its steps take 2.1 times as long as those of the other ranks",
        "host3 was refused: the job already has all 2 nodes",
    ]
    assert told(JobState(RUNNING)) == ["rank 5 on gpu1 is as fast as the other ranks again"]


def test_a_slow_rank_has_not_recovered_because_its_round_has_ended(told):
    assert told(JobState(RUNNING), JobState(RUNNING, slow=(SLOW,)), JobState(GATHERING, round=1)) == [
        "rank 5 on gpu1 is slow: its steps take 2.1 times as long as those of the other ranks"
    ]


@pytest.fixture
def begun():
    """What a node with two workers is told when a round begins."""

    def begin(seat, *hosts):
        said = []
        role = SimpleNamespace(name="trainer")
        spec = SimpleNamespace(
            main=0, all_roles=(role,), log=SimpleNamespace(directory="/job/log", shared_console=False)
        )
        console = SimpleNamespace(
            spec=spec,
            own_log=SimpleNamespace(),
            say=lambda _level, text: said.append(text),
            event=lambda *_, **__: None,
            show_first_round=lambda _started, _began: None,
        )
        seats = tuple(Seat(f"n{n}", host, f"10.0.0.{n}", ports_of(1, 2, 3, 4, 5)) for n, host in enumerate(hosts))
        workers = [SimpleNamespace(worker=SimpleNamespace(name="trainer", rank=2 * seat + n)) for n in range(2)]
        ClusterMessages(console, None).report_round(
            SimpleNamespace(roster=Roster(0, 0, seats), seat=seat, plans=workers)
        )
        return said

    return begin


def test_the_node_of_rank_0_says_where_its_logs_are(begun):
    assert begun(0, "gpu01", "gpu02") == [
        "round 0: 2 nodes, gpu01 to gpu02; this is node 0; output of ranks 0-1 is in /job/log"
    ]


def test_another_node_also_says_where_rank_0_is(begun):
    assert begun(1, "gpu01", "gpu02") == [
        "round 0: 2 nodes, gpu01 to gpu02; this is node 1",
        "rank 0 is on gpu01; output of ranks 2-3 is in /job/log",
    ]


def test_nodes_with_one_host_name_are_told_apart_by_their_numbers(begun):
    assert begun(1, "vm", "vm") == [
        "round 0: 2 nodes, vm (node 0) to vm (node 1); this is node 1",
        "rank 0 is on vm (node 0); output of ranks 2-3 is in /job/log",
    ]
    assert begun(2, "vm", "gpu01", "vm")[0] == "round 0: 3 nodes, vm (node 0) to vm (node 2); this is node 2"
