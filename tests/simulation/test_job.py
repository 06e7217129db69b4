"""Whole jobs in virtual time: what must hold whatever the network, the store and the nodes do."""

from __future__ import annotations

import os

import pytest

from flota.cluster.terms import Terms
from flota.job.report import FAILED, INCOMPLETE, STOPPED, SUCCEEDED
from flota.job.spec import RestartPolicy
from tests.simulation.nodes import Cluster

SEEDS = range(200 if os.environ.get("FLOTA_SOAK") else 12)
ONCE = RestartPolicy()
RESTARTS = RestartPolicy(1000, enabled=True, crash_loop=0)


def terms(least, most, policy=ONCE, **more):
    return Terms("job", least, most, ("torch",), policy, **{"elastic_timeout": 5.0, "join_timeout": 120.0, **more})


@pytest.mark.parametrize("nodes", [2, 3, 64])
@pytest.mark.parametrize("etcd", [False, True])
def test_nodes_join_in_any_order_and_succeed(nodes, etcd):
    cluster = Cluster(nodes, terms(nodes, nodes), etcd=etcd)
    for _ in range(nodes):
        cluster.world.after(cluster.world.random.uniform(0, 10), cluster.add)
    cluster.world.run(cluster.world.now + 10, lambda: False)
    cluster.run(60)
    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert all(node.over for node in cluster.nodes) and len(cluster.nodes) == nodes
    assert list(cluster.rosters) == [0]


def test_a_failure_ends_the_job_everywhere_with_the_same_code():
    cluster = Cluster(1, terms(8, 8))
    for _ in range(8):
        cluster.add()
    cluster.world.after(5, lambda: cluster.nodes[5].fail(code=7))
    cluster.run(60)
    assert cluster.endings() == {(FAILED, 7)}
    assert all(node.ending.failures[0].node == "0005" for node in cluster.nodes)


def test_a_failure_restarts_all_nodes_and_is_counted_once():
    cluster = Cluster(2, terms(4, 4, RestartPolicy(1, enabled=True)))
    for _ in range(4):
        cluster.add()
    cluster.world.after(5, lambda: cluster.nodes[2].fail())
    cluster.world.after(5.001, lambda: cluster.nodes[3].fail())  # fails as a consequence
    cluster.run(60)
    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert len(cluster.rosters) == 2 and cluster.rosters[0] == cluster.rosters[1]
    assert {node.follower.job_state.attempt for node in cluster.nodes} == {1}


@pytest.mark.parametrize("failing", [0, 2], ids=["the coordinator's node", "another node"])
def test_a_full_etcd_ends_the_job_everywhere_within_a_minute(failing):
    cluster = Cluster(4, terms(4, 4, join_timeout=60.0), work=1000.0)
    for _ in range(4):
        cluster.add()
    cluster.world.after(5, lambda: setattr(cluster.store, "full", True))
    cluster.world.after(6, lambda: cluster.nodes[failing].fail())

    cluster.run(75)

    assert cluster.endings() == {(INCOMPLETE, 75)}
    assert all(node.over for node in cluster.nodes)


def test_a_full_etcd_that_has_space_again_is_survived():
    cluster = Cluster(5, terms(4, 4, RESTARTS))
    for _ in range(4):
        cluster.add()
    cluster.world.after(5, lambda: setattr(cluster.store, "full", True))
    cluster.world.after(6, lambda: cluster.nodes[2].fail())
    cluster.world.after(30, lambda: setattr(cluster.store, "full", False))

    cluster.run(100)

    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert all(node.over for node in cluster.nodes)


@pytest.mark.parametrize("cut_at", [9.0, 12.0], ids=["before the end", "at the end"])
@pytest.mark.parametrize("etcd", [False, True])
def test_a_node_that_is_done_and_cut_off_for_a_while_gets_the_result(etcd, cut_at):
    cluster = Cluster(3, terms(3, 3), etcd=etcd)
    for _ in range(3):
        cluster.add()

    def finish() -> None:
        """Of a node that is not the coordinator: only that one knows which nodes are done."""
        node = next(one for one in cluster.nodes if not one.member.registration.is_coordinator)
        node._finish_work(node.at_work)
        cluster.world.after(cut_at - 8, lambda: node.cut(10.0))

    cluster.world.after(8, finish)

    cluster.run(60)

    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert all(one.over for one in cluster.nodes)


@pytest.mark.parametrize("shepherd", [False, True])
def test_a_lost_node_of_a_fixed_job_ends_it_by_name(shepherd):
    cluster = Cluster(3, terms(3, 3))
    for _ in range(3):
        cluster.add()
    cluster.world.after(5, lambda: cluster.nodes[1].crash(shepherd=shepherd))
    cluster.run(60)
    assert cluster.endings() == {(INCOMPLETE, 75)}
    assert {node.ending.reason for node in cluster.nodes if node.ending} == {"host1 was lost"}


@pytest.mark.parametrize("etcd", [False, True])
@pytest.mark.parametrize("policy", [ONCE, RestartPolicy(3, enabled=True, elastic_level=0)])
def test_the_victims_of_a_host_that_died_whole_are_not_to_blame(policy, etcd):
    cluster = Cluster(16, terms(4, 4, policy), etcd=etcd)
    for _ in range(4):
        cluster.add()
    cluster.world.after(5, lambda: cluster.nodes[3].crash(shepherd=False))
    for number in range(3):
        cluster.world.after(5.001, lambda number=number: cluster.nodes[number].fail())
    cluster.world.after(25, cluster.add)
    cluster.run(90)
    assert cluster.endings() == {(SUCCEEDED, 0) if policy.enabled else (INCOMPLETE, 75)}
    assert {node.follower.job_state.attempt for node in cluster.nodes[:3]} == {0}
    assert [node.ending.reason for node in cluster.nodes[:3]] == ["" if policy.enabled else "host3 was lost"] * 3


def test_an_elastic_job_continues_without_a_lost_node_and_with_a_new_one():
    cluster = Cluster(4, terms(2, 4, RESTARTS), work=60)
    for _ in range(4):
        cluster.add()
    cluster.world.after(10, lambda: cluster.nodes[1].crash(shepherd=True))
    cluster.world.after(40, lambda: cluster.add("host9"))
    cluster.run(300)
    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert [len(seats) for seats in cluster.rosters.values()] == [4, 3, 4]
    first, second, third = cluster.rosters.values()
    assert second[0] == first[0] and second[2] == first[2]
    assert third[:3] == second and third[3] == cluster.nodes[4].name


@pytest.mark.parametrize("etcd", [False, True])
def test_servers_on_nodes_of_their_own_end_with_the_others_work(etcd):
    cluster = Cluster(17, terms(4, 4), etcd=etcd)
    for number in range(4):
        cluster.add(only_servers=number % 2 == 1)
    cluster.run(15)
    assert len(cluster.working()) == 4
    cluster.run(60)
    assert cluster.endings() == {(SUCCEEDED, 0)} and all(node.over for node in cluster.nodes)


@pytest.mark.parametrize("etcd", [False, True])
@pytest.mark.parametrize("how", ["crash", "fail"])
def test_a_node_that_only_serves_is_missed_and_can_fail(etcd, how):
    cluster = Cluster(18, terms(3, 3), etcd=etcd)
    for number in range(3):
        cluster.add(only_servers=number == 2)
    cluster.world.after(
        8, lambda: cluster.nodes[2].crash(shepherd=False) if how == "crash" else cluster.nodes[2].fail(4)
    )
    cluster.run(60)
    assert cluster.endings() == {(INCOMPLETE, 75) if how == "crash" else (FAILED, 4)}


def test_below_min_the_job_waits_and_then_ends():
    cluster = Cluster(5, terms(2, 3, RESTARTS, join_timeout=40.0))
    for _ in range(2):
        cluster.add()
    cluster.world.after(10, lambda: cluster.nodes[1].crash(shepherd=True))
    cluster.run(200)
    ending = cluster.nodes[0].ending
    assert (ending.kind, ending.code) == (INCOMPLETE, 75)
    assert ending.reason == "nodes did not join in time: 1 node joined (need 2, up to 3): host0"


def test_a_drained_node_leaves_and_the_others_continue():
    cluster = Cluster(6, terms(2, 3, RESTARTS), work=40)
    for _ in range(3):
        cluster.add()
    cluster.world.after(10, lambda: cluster.nodes[2].terminate())
    cluster.run(200)
    assert cluster.nodes[2].ending.kind == STOPPED
    assert {cluster.nodes[n].ending.kind for n in (0, 1)} == {SUCCEEDED}
    assert [len(seats) for seats in cluster.rosters.values()] == [3, 2]


@pytest.mark.parametrize("signal", [2, 15])
def test_a_node_without_a_seat_stops_no_other_node(signal):
    cluster = Cluster(15, terms(2, 2), work=20)
    for _ in range(2):
        cluster.add()
    cluster.run(5)
    stray = cluster.add("host1")  # started twice by mistake
    cluster.run(1)
    stray.terminate(signal)
    cluster.run(60)
    assert stray.ending.kind == STOPPED
    assert {cluster.nodes[number].ending.kind for number in (0, 1)} == {SUCCEEDED}


@pytest.mark.parametrize("least", [1, 3])
def test_sigterm_to_all_ends_the_job_once(least):
    cluster = Cluster(7, terms(least, 3, RESTARTS))
    for _ in range(3):
        cluster.add()
    for number in range(3):
        cluster.world.after(10 + number * 0.2, lambda number=number: cluster.nodes[number].terminate())
    cluster.run(200)
    assert cluster.endings() == {(STOPPED, 143)}
    assert len(cluster.rosters) == 1


@pytest.mark.parametrize("etcd", [False, True])
@pytest.mark.parametrize("nodes", [1, 7])
def test_a_preempted_job_stops_at_one_step_everywhere(nodes, etcd):
    cluster = Cluster(19, terms(8, 8), work=600, etcd=etcd)
    for _ in range(8):
        cluster.add()
    for number in range(nodes):
        cluster.world.after(10 + number * 0.01, lambda number=number: cluster.nodes[number].preempt())
    cluster.run(60)
    assert cluster.endings() == {(STOPPED, 75)}
    assert len({node.stopped_at for node in cluster.nodes}) == 1 and len(cluster.rosters) == 1


@pytest.mark.parametrize("saves", [True, False])
def test_with_restarts_nodes_that_are_asked_to_leave_are_replaced(saves):
    cluster = Cluster(19, terms(8, 8, RESTARTS), work=20)
    for _ in range(8):
        cluster.add()
    for number in (0, 3):  # the coordinator is one of them
        leave = cluster.nodes[number].preempt if saves else cluster.nodes[number].terminate
        cluster.world.after(5 + number * 0.01, leave)
    cluster.world.after(15, lambda: (cluster.add(), cluster.add()))
    cluster.run(120)
    stays = [node for node in cluster.nodes if node not in (cluster.nodes[0], cluster.nodes[3])]
    assert {(node.ending.kind, node.ending.code) for node in stays} == {(SUCCEEDED, 0)}
    assert {(node.ending.kind, node.ending.code) for node in cluster.nodes if node not in stays} == {(STOPPED, 143)}
    assert len(cluster.rosters) == 2 and len({node.stopped_at for node in cluster.nodes[:8]}) == 1


@pytest.mark.parametrize("leaving", [True, False])
def test_at_level_0_a_drained_or_failing_node_leaves_and_its_victims_stay(leaving):
    policy = RestartPolicy(3, enabled=True, elastic_level=0)
    cluster = Cluster(8, terms(1, 3, policy), work=40)
    for _ in range(3):
        cluster.add()
    cluster.world.after(10, lambda: cluster.nodes[1].terminate() if leaving else cluster.nodes[1].fail(code=9))
    for number in (0, 2):
        cluster.world.after(10.002, lambda number=number: cluster.nodes[number].fail(code=1))
    cluster.run(200)
    assert cluster.nodes[1].ending.code == (143 if leaving else 9)
    assert {cluster.nodes[n].ending.kind for n in (0, 2)} == {SUCCEEDED}


@pytest.mark.parametrize(
    ("more", "rank", "words"),
    [
        ({"job": "other"}, -1, "its job id is `other`"),
        ({"most": 4, "least": 4}, -1, "expects 4 nodes"),
        ({"frameworks": ("paddle",)}, -1, "paddle"),
        ({}, 5, "rank 5"),
    ],
)
def test_a_node_that_disagrees_is_refused(more, rank, words):
    common = terms(2, 2)
    cluster = Cluster(9, common)
    cluster.add()
    cluster.run(1)
    stranger = cluster.add(terms=common._replace(**more), rank=rank)
    cluster.run(2)
    assert stranger.ending.code == 2 and words in stranger.ending.reason
    cluster.add()
    cluster.run(60)
    assert {cluster.nodes[n].ending.kind for n in (0, 2)} == {SUCCEEDED}


def test_a_rank_taken_and_a_job_that_is_full():
    cluster = Cluster(10, terms(2, 2))
    cluster.add(rank=1)
    cluster.run(1)
    twin = cluster.add(rank=1)
    cluster.run(2)
    assert "rank 1 is taken by host0" in twin.ending.reason
    cluster.add(rank=0)
    cluster.run(2)
    late = cluster.add()
    cluster.run(2)
    assert "all 2 nodes" in late.ending.reason
    cluster.run(60)
    assert cluster.rosters[0] == (cluster.nodes[2].name, cluster.nodes[0].name)


def test_a_paused_store_is_not_noticed():
    cluster = Cluster(11, terms(4, 4), work=60)
    for _ in range(4):
        cluster.add()
    cluster.run(10)
    cluster.store.paused_until = cluster.world.now + 10
    cluster.run(120)
    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert len(cluster.rosters) == 1


def test_without_the_embedded_master_everybody_ends_within_the_lease():
    cluster = Cluster(12, terms(4, 4), etcd=False, work=600)
    for _ in range(4):
        cluster.add()
    cluster.run(10)
    lost_at = cluster.world.now
    cluster.nodes[0].crash(shepherd=False)
    cluster.run(60)
    assert cluster.endings() == {(INCOMPLETE, 75)}
    assert cluster.world.now - lost_at < 8


def test_a_clock_that_jumps_ends_nothing():
    cluster = Cluster(13, terms(3, 3), etcd=False, work=60)
    for _ in range(3):
        cluster.add()
    for number in range(3):
        cluster.world.after(10 + 5 * number, lambda number=number: setattr(cluster.nodes[number], "jump", 3600.0))
    cluster.run(120)
    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert len(cluster.rosters) == 1


@pytest.mark.parametrize("etcd", [False, True])
def test_hundreds_of_nodes_restart_together(etcd):
    cluster = Cluster(14, terms(300, 300, RESTARTS), etcd=etcd)
    for _ in range(300):
        cluster.add()
    for seconds in (4, 8, 12):
        cluster.world.after(seconds, lambda: cluster.world.random.choice(cluster.nodes).fail())
    cluster.run(120)
    assert cluster.endings() == {(SUCCEEDED, 0)}
    assert [len(seats) for seats in cluster.rosters.values()] == [300] * 4
    assert len(set(cluster.rosters.values())) == 1, "no node left, so no node changed its seat"


@pytest.mark.parametrize("etcd", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_after_random_faults_all_remaining_nodes_finish(seed, etcd):
    """Failures, crashes, cuts, lost messages and pauses for two minutes; after that all remaining nodes must finish."""
    cluster = Cluster(seed, terms(2, 8, RESTARTS, elastic_timeout=3.0), work=30, etcd=etcd)
    chance = cluster.world.random
    cluster.add()
    for number in range(5):
        cluster.world.after(chance.uniform(0, 5), lambda number=number: cluster.add(only_servers=number == 4))
    cluster.world.run(cluster.world.now + 5, lambda: False)
    for _ in range(25):
        cluster.world.after(chance.uniform(0, 120), lambda: _trouble(cluster))
    cluster.store.loss = 0.02 if etcd else 0.0
    cluster.world.after(120, lambda: _calm(cluster))
    cluster.run(120 + 400)
    left = [node for node in cluster.nodes if node.name not in cluster.crashed]
    assert all(node.over for node in left), "a node waits forever"
    # A node that is cut off from an embedded master gives up; a node that was asked to leave has left; a node may start
    # when the job has just ended.
    stayed = [node for node in left if node.begun and node.ending.kind != STOPPED and (etcd or not node.was_cut)]
    assert {node.ending.kind for node in stayed} == {SUCCEEDED}


def _trouble(cluster):
    """Whatever can happen to a node, or to the store. The node that serves the master is spared: without it all end."""
    chance = cluster.world.random
    alive = [node for node in cluster.nodes if not node.over]
    node = chance.choice(alive)
    kind = chance.choice(["fail", "fail", "crash", "cut", "cut", "leave", "join", "pause", "jump"])
    if kind == "fail":
        node.fail()
    elif kind in ("crash", "leave") and len(alive) > 4 and not node.serves:
        node.crash(shepherd=chance.random() < 0.5) if kind == "crash" else node.terminate()
    elif kind == "cut" and not node.serves and (cluster.etcd or len([one for one in alive if not one.was_cut]) > 4):
        node.cut(chance.uniform(0.1, 20))
    elif kind == "join" and len(alive) < 7:
        cluster.add()
    elif kind == "pause" and cluster.etcd:
        cluster.store.paused_until = cluster.world.now + chance.uniform(0.5, 12)
    elif kind == "jump":
        node.jump += chance.uniform(0, 30)


def _calm(cluster):
    cluster.store.loss = 0.0
    cluster.store.paused_until = 0.0
    for node in cluster.nodes:
        node.client.heal()
