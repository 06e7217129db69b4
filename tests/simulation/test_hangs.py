"""Hangs of whole jobs in virtual time: all nodes must be idle at the same time, and stacks are requested only once."""

from __future__ import annotations

import os

import pytest

from flota.job.causes import HUNG
from flota.job.report import FAILED, INCOMPLETE, SUCCEEDED
from flota.job.spec import RestartPolicy
from tests.simulation.nodes import Cluster
from tests.simulation.test_job import ONCE, RESTARTS, terms

SEEDS = range(200 if os.environ.get("FLOTA_SOAK") else 12)
NEVER = 1e6


def started(seed, nodes, policy=ONCE, *, etcd=True, work=NEVER):
    cluster = Cluster(seed, terms(nodes, nodes, policy), etcd=etcd, work=work)
    for _ in range(nodes):
        cluster.add()
    cluster.run(8)
    assert len(cluster.working()) == nodes
    return cluster


def stand_all(cluster, culprit=None):
    for number, node in enumerate(cluster.nodes):
        node.stand(kind="elsewhere" if number == culprit else "collective")


@pytest.mark.parametrize("etcd", [False, True])
def test_if_no_node_makes_progress_the_job_fails_and_the_rank_is_named(etcd):
    cluster = started(1, 8, etcd=etcd)
    seat = cluster.nodes[0].at_work.seat_of(cluster.nodes[5].name)

    stand_all(cluster, culprit=5)
    cluster.run(60)

    assert cluster.endings() == {(FAILED, 124)}
    [fault] = cluster.nodes[0].ending.failures
    assert (fault.rank, fault.node, fault.cause) == (seat, "host5", HUNG)
    assert "7 of 8 ranks: collective at x.py:1" in fault.said
    assert all(node.ending.failures == (fault,) and node.asked_for_stacks == 1 for node in cluster.nodes)


def test_a_hang_is_restarted_and_counted_once():
    cluster = started(2, 4, RestartPolicy(1, enabled=True), work=60)

    stand_all(cluster, culprit=2)
    cluster.run(200)

    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert len(cluster.rosters) == 2 and cluster.rosters[0] == cluster.rosters[1]
    assert {node.follower.job_state.attempt for node in cluster.nodes} == {1}


def test_at_level_0_the_node_of_the_rank_that_hangs_leaves_and_the_others_go_on():
    cluster = Cluster(8, terms(3, 4, RestartPolicy(3, enabled=True, elastic_level=0)), work=60)
    for _ in range(4):
        cluster.add()
    cluster.run(8)
    before = cluster.nodes[0].at_work.round

    stand_all(cluster, culprit=2)
    cluster.run(200)

    left = cluster.nodes[2].ending
    assert (left.kind, left.code, left.failures[0].node, left.failures[0].cause) == (FAILED, 124, "host2", HUNG)
    assert {node.ending.kind for node in cluster.nodes if node is not cluster.nodes[2]} == {SUCCEEDED}
    assert set(cluster.rosters[before + 1]) == {node.name for node in cluster.nodes} - {cluster.nodes[2].name}


def test_no_rank_stands_out():
    cluster = started(3, 4)

    stand_all(cluster)
    cluster.run(60)

    [fault] = cluster.nodes[0].ending.failures
    assert (fault.rank, cluster.endings()) == (-1, {(FAILED, 124)})
    assert "no rank stands out" in fault.said[1]


def test_one_node_at_work_is_enough():
    cluster = started(4, 4, work=100)

    for node in cluster.nodes[1:]:
        node.stand()
    cluster.run(200)

    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert not any(node.asked_for_stacks for node in cluster.nodes)


def test_a_node_that_moves_again_in_time_ends_the_lull():
    cluster = started(5, 3, work=100)

    stand_all(cluster)
    cluster.run(5)
    cluster.nodes[1].stand(0.0)
    cluster.run(200)

    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert not any(node.asked_for_stacks for node in cluster.nodes)


def test_a_node_that_moves_while_stacks_are_taken_lets_all_go_on():
    cluster = started(9, 4, work=100)

    stand_all(cluster)
    cluster.nodes[1]._look = lambda _question: cluster.nodes[1].stand(0.0)
    cluster.run(30)
    assert {(node.follower.job_state.asked, node.follower.job_state.question) for node in cluster.nodes} == {(1, None)}
    assert {node.follower.record.idle for node in cluster.nodes} == {0.0}
    cluster.run(200)

    assert cluster.endings() == {(SUCCEEDED, 0)}


def test_a_job_that_hangs_after_more_progress_is_asked_again():
    cluster = started(10, 4)

    stand_all(cluster)
    cluster.nodes[1]._look = lambda _question: cluster.nodes[1].stand(0.0)
    cluster.run(30)
    del cluster.nodes[1]._look
    stand_all(cluster, culprit=2)
    cluster.run(60)

    assert cluster.endings() == {(FAILED, 124)}
    assert cluster.nodes[0].ending.failures[0].node == "host2"


@pytest.mark.parametrize("blind", [{2}, {1, 3}, {0, 1, 2, 3}])
def test_workers_are_aborted_for_their_stacks_when_all_others_have_been_seen(blind):
    cluster = started(11, 4)
    for number in blind:
        cluster.nodes[number].blind = True

    stand_all(cluster, culprit=2)
    cluster.run(60)

    seen = [node.stacked_at for number, node in enumerate(cluster.nodes) if number not in blind]
    assert all(cluster.nodes[number].aborted_at > max(seen, default=0.0) for number in blind)
    assert cluster.endings() == {(FAILED, 124)}
    assert cluster.nodes[0].ending.failures[0].node == "host2"


def test_a_job_whose_workers_are_being_aborted_does_not_go_on():
    cluster = started(12, 3)
    cluster.nodes[0].blind = cluster.nodes[1].blind = True

    stand_all(cluster)
    cluster.nodes[1]._tell_stacks = lambda _question: cluster.nodes[1].stand(0.0)
    cluster.run(60)

    assert cluster.endings() == {(FAILED, 124)}


def test_a_node_that_is_lost_while_stacks_are_asked_for_is_lost():
    cluster = started(6, 3)

    stand_all(cluster)
    cluster.nodes[2]._look = lambda _question: None
    cluster.run(10.2)
    cluster.nodes[2].crash(shepherd=False)
    cluster.run(60)

    assert cluster.endings() == {(INCOMPLETE, 75)}
    assert {node.ending.reason for node in cluster.nodes[:2]} == {"host2 was lost"}


def test_a_node_that_does_not_answer_is_not_waited_for_forever():
    cluster = started(7, 3)

    stand_all(cluster, culprit=1)
    cluster.nodes[2]._look = lambda _question: None
    cluster.run(60)

    assert cluster.endings() == {(FAILED, 124)}


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_the_network_does_a_hang_is_counted_once(seed):
    cluster = started(seed, 5, RESTARTS, work=150)
    cluster.store.loss = 0.05

    stand_all(cluster, culprit=seed % 5)
    if seed % 3 == 0:
        cluster.world.after(12, lambda: cluster.nodes[0].cut(3.0))
    cluster.run(600)

    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert all(node.asked_for_stacks <= 1 for node in cluster.nodes)
