"""Jobs with spares in virtual time: whatever happens to a spare, and whenever, the job is not lost."""

from __future__ import annotations

import pytest

from flota.job.report import FAILED, INCOMPLETE, STOPPED, SUCCEEDED
from tests.simulation.nodes import Cluster
from tests.simulation.test_job import SEEDS, terms

AT_ONCE = 1.0  # seconds: workers take half a second to stop


def make(seed, nodes, spares, *, etcd, work=20.0, **more):
    """The first nodes have the seats, because they join first."""
    cluster = Cluster(seed, terms(nodes, nodes, spares=spares, **more), work=work, etcd=etcd)
    for number in range(nodes + spares):
        cluster.world.after(number * 0.1, cluster.add)
    cluster.world.run(cluster.world.now + 2.0, lambda: False)
    assert cluster.rosters[0] == tuple(f"{number:04x}" for number in range(nodes))
    return cluster


@pytest.mark.parametrize("etcd", [False, True])
def test_a_spare_takes_the_seat_at_once_and_the_lost_node_comes_back_as_one(etcd):
    cluster = make(1, 3, 1, etcd=etcd)
    cluster.nodes[1].workers = cluster.nodes[3].workers
    cluster.world.after(2, lambda: cluster.nodes[1].crash(shepherd=True))
    cluster.world.run(cluster.world.now + 2 + AT_ONCE, lambda: False)

    assert cluster.rosters[1] == ("0000", "0003", "0002")
    cluster.add("host1")
    cluster.world.after(2, lambda: cluster.nodes[2].crash(shepherd=True))
    cluster.run(60)

    assert cluster.rosters[2] == ("0000", "0003", "0004")
    assert cluster.endings() == {(SUCCEEDED, 0)}


@pytest.mark.parametrize("etcd", [False, True])
def test_a_spare_ends_as_the_job_does(etcd):
    cluster = make(2, 2, 2, etcd=etcd)
    cluster.world.after(3, lambda: cluster.nodes[0].fail(code=7))
    cluster.run(60)

    assert cluster.endings() == {(FAILED, 7)}
    assert [len(node.begun) for node in cluster.nodes] == [1, 1, 0, 0]


def test_without_a_spare_left_the_job_waits_and_then_ends():
    cluster = make(3, 3, 1, etcd=True)
    cluster.nodes[3].terminate()
    cluster.world.after(2, lambda: cluster.nodes[1].crash(shepherd=True))
    cluster.run(200)

    assert {node.ending.kind for node in (cluster.nodes[0], cluster.nodes[2])} == {INCOMPLETE}
    assert list(cluster.rosters) == [0]


@pytest.mark.parametrize("etcd", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_spare_that_goes_while_it_is_seated_does_not_take_the_job_with_it(seed, etcd):
    """In another launcher, a node that waits and leaves closes the round for all. Here a node is lost, with an etcd the
    coordinator's, and a spare leaves, dies or is cut off in the same second: before it is seated, while it is, after."""
    cluster = make(seed, 3, 2, etcd=etcd)
    chance = cluster.world.random
    victim = cluster.nodes[0 if etcd else 1]
    spare = cluster.nodes[3]
    goes = chance.choice(
        [
            spare.terminate,
            lambda: spare.crash(shepherd=False),
            lambda: spare.crash(shepherd=True),
            lambda: spare.cut(20.0),
        ]
    )
    cluster.world.after(5.0, lambda: victim.crash(shepherd=chance.random() < 0.7))
    cluster.world.after(5.0 + chance.uniform(-0.1, 1.0) + chance.choice([0.0, 5.0]), goes)
    cluster.run(120)

    stayed = [node for node in cluster.nodes if node not in (victim, spare)]
    assert {(node.ending.kind, node.ending.code) for node in stayed} == {(SUCCEEDED, 0)}
    assert all(node.over for node in stayed)


@pytest.mark.parametrize("etcd", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_after_random_losses_without_restarts_all_remaining_nodes_finish(seed, etcd):
    """Crashes, cuts, pauses, and spares that come and go. As many nodes as there are seats stay."""
    cluster = make(seed, 3, 3, etcd=etcd, work=30.0)
    cluster.store.loss = 0.02 if etcd else 0.0
    for _ in range(25):
        cluster.world.after(cluster.world.random.uniform(0, 120), lambda: _trouble(cluster))
    cluster.world.after(120, lambda: _calm(cluster))
    cluster.run(120 + 400)

    left = [node for node in cluster.nodes if node.name not in cluster.crashed]
    assert all(node.over for node in left), "a node waits forever"
    stayed = [node for node in left if node.begun and node.ending.kind != STOPPED and (etcd or not node.was_cut)]
    assert {node.ending.kind for node in stayed} == {SUCCEEDED}


def _trouble(cluster):
    if _has_ended(cluster):
        return
    chance = cluster.world.random
    alive = [node for node in cluster.nodes if not node.over]
    whole = [node for node in alive if cluster.etcd or not node.was_cut]
    node = chance.choice(alive)
    kind = chance.choice(["crash", "crash", "cut", "leave", "join", "join", "pause", "jump"])
    may_go = len(whole) > cluster.terms.most and not node.serves
    if kind == "crash" and may_go:
        node.crash(shepherd=chance.random() < 0.5)
    elif kind == "cut" and may_go:
        node.cut(chance.uniform(0.1, 20))
    elif kind == "leave" and may_go and not node.at_work and node.follower.is_spare:
        node.terminate()
    elif kind == "join" and len(alive) < cluster.terms.most + cluster.terms.spares:
        cluster.add()
    elif kind == "pause" and cluster.etcd:
        cluster.store.paused_until = cluster.world.now + chance.uniform(0.5, 12)
    elif kind == "jump":
        node.jump += chance.uniform(0, 30)


def _calm(cluster):
    """As many nodes as there are seats are there from now on."""
    cluster.store.loss = 0.0
    cluster.store.paused_until = 0.0
    for node in cluster.nodes:
        node.client.heal()
    while not _has_ended(cluster) and sum(not node.over for node in cluster.nodes) < cluster.terms.most:
        cluster.add()


def _has_ended(cluster):
    """Then more nodes would be another job."""
    return (SUCCEEDED, 0) in cluster.endings()
