"""Nodes meet: in any order, by any family of flags, and every worker gets the place that is promised."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.launching import environment
from tests.netns.jobs import MEETS, Job, Worker, last_words


def places(workers: list[Worker]) -> list[tuple[int, str, int, int]]:
    return [(worker.rank, worker.host, worker.node_rank, worker.local_rank) for worker in workers]


def everybody(*nodes: tuple[str, int]) -> str:
    """What meets.py prints in a job of these hosts, with so many workers each."""
    flat = [(host, number, local) for number, (host, count) in enumerate(nodes) for local in range(count)]
    return "".join(f"{rank} {host} {node} {local} {len(flat)}\n" for rank, (host, node, local) in enumerate(flat))


@pytest.mark.parametrize("order", [[1, 2, 3], [3, 2, 1]], ids=str)
def test_the_starting_order_does_not_matter(jobs, order):
    for job in jobs:
        job.node(order[0], "--nnodes 3")
    # Whoever is early says so: that nobody serves yet, or who is there already.
    served = order[0] == 1
    jobs[0].nodes.started[0].wait_for("1 of 3 joined (host1)" if served else f"waiting for {jobs[0].master}")
    jobs[1].nodes.started[0].wait_for(f"1 of 3 joined (host{order[0]})")
    for job in jobs:
        job.start(order[1:], "--nnodes 3")

        assert places(job.round(0, 3)) == [(0, "host1", 0, 0), (1, "host2", 1, 0), (2, "host3", 2, 0)]
        job.finish()
        assert job.codes() == [0, 0, 0]
        assert all("3 workers finished successfully" in node.err for node in job.nodes.started)


def test_a_rank_is_the_sum_of_earlier_nodes_workers_and_the_local_rank(job):
    for host, count in [(1, 2), (2, 1), (3, 3)]:
        job.node(host, f"--nnodes 3 --nproc_per_node {count}", MEETS)

    assert job.codes() == [0, 0, 0]
    for node, rank in zip(job.nodes.started, [0, 2, 3], strict=True):
        assert node.log(rank) == everybody(("host1", 2), ("host2", 1), ("host3", 3))


@pytest.mark.parametrize("first", [1, 2])
def test_a_rank_that_was_asked_for_is_given(job, first):
    job.node(first, f"--nnodes 2 --rank {2 - first}")
    if job.etcd or first == 1:  # otherwise nobody serves yet
        job.wait_for_records(1)
    job.node(3 - first, f"--nnodes 2 --rank {first - 1}")

    assert places(job.round(0, 2)) == [(0, "host2", 0, 0), (1, "host1", 1, 0)]
    job.finish()
    assert job.codes() == [0, 0]


@pytest.mark.parametrize("leaver", [1, 2])
def test_a_node_that_is_stopped_before_the_job_begins_leaves_a_place_for_another(job, leaver):
    nodes = job.start([1, 2], "--nnodes 3")
    job.wait_for_records(2)

    nodes[leaver - 1].process.send_signal(signal.SIGTERM)

    assert nodes[leaver - 1].wait() == 143
    job.start([leaver, 3], "--nnodes 3")
    assert [worker.host for worker in job.round(job.next_round(-1), 3)] == ["host1", "host2", "host3"]
    job.finish()
    assert sorted(job.codes()) == [0, 0, 0, 143]


def test_hosts_are_in_their_natural_order(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master("etcd"))
    job.start([10, 2, 1], "--nnodes 3")

    assert [worker.host for worker in job.round(0, 3)] == ["host1", "host2", "host10"]
    job.finish()
    assert job.codes() == [0, 0, 0]


def test_the_node_that_serves_is_node_0(shared, tmp_path):
    job = Job(shared.lab, tmp_path, "10.77.0.2:8090")
    job.start([1, 2, 3], "--nnodes 3")

    assert [worker.host for worker in job.round(0, 3)] == ["host2", "host1", "host3"]
    job.finish()
    assert job.codes() == [0, 0, 0]


FAMILIES = {
    "ips": "--ips 10.77.0.1,10.77.0.2",
    "static": "--nnodes 2 --node-rank {rank} --master-addr 10.77.0.1 --master-port 29501",
    "c10d": "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 10.77.0.1:29400 --rdzv-id mine",
    "rdzv-etcd": "--nnodes 2 --rdzv-backend etcd --rdzv-endpoint 10.77.0.9:2379 --rdzv-id mine",
    "elastic_server": "--elastic_server 10.77.0.9:2379 --np 2 --host 10.77.0.{host} --job_id mine",
    "http6": "--nnodes 2 --master [fd77::1]:8090",
    "etcd6": "--nnodes 2 --master etcd://[fd77::9]:2379",
    "name": "--nnodes 2 --master http://host1:8090",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_flags_leads_to_the_same_rendezvous(shared, tmp_path, family):
    job = Job(shared.lab, tmp_path)
    for host in (2, 1):
        job.node(host, f"{FAMILIES[family].format(host=host, rank=host - 1)} --nproc_per_node {host}", MEETS)

    assert job.codes() == [0, 0]
    two, one = job.nodes.started
    assert one.log(0) == two.log(1) == two.log(2) == everybody(("host1", 1), ("host2", 2))


def test_a_name_that_means_loopback_on_its_own_host_is_served_to_all(shared, tmp_path):
    shared.lab.host(1).etc_hosts("127.0.0.1 localhost\n127.0.1.1 host1\n10.77.0.2 host2\n")
    job = Job(shared.lab, tmp_path, "host1:8090")
    one, two = job.start([1, 2], "--nnodes 2", MEETS)

    assert job.codes() == [0, 0]
    assert one.log(0) == two.log(1) == everybody(("host1", 1), ("host2", 1))


def test_the_command_to_copy_works_when_it_is_pasted(shared, tmp_path):
    job = Job(shared.lab, tmp_path)
    one = job.node(1, "--nnodes 2 --nproc_per_node 2 --env 'GREETING=a b'", MEETS)
    one.wait_for("-" * 80 + "\nFLOTA_TOKEN_FILE=")
    heading, line, command, end = one.out.splitlines()[:4]

    result = shared.lab.host(2).run(["sh", "-c", command], env=with_flota(), cwd=job.stage)

    assert (heading, line, end) == ("Copy the following command to other nodes to run.", "-" * 80, "-" * 80)
    assert (result.returncode, job.codes()) == (0, [0]), result.stderr
    assert one.log(0) == one.log(2) == everybody(("host1", 2), ("host2", 2))


def with_flota() -> dict[str, str]:
    env = environment()
    return {**env, "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}


# Waiting, and its end.


def test_nodes_that_wait_without_success_name_those_that_joined_and_exit_with_75(jobs):
    for job in jobs:
        job.start([1, 2], "--nnodes 3 --join-timeout 8")

    for job in jobs:
        assert job.codes() == [75, 75]
        for node in job.nodes.started:
            assert "waiting for nodes: 2 of 3 joined (host1, host2)" in node.err
            assert "nodes did not join in time: 2 of 3 joined (host1, host2)" in node.err


def test_missing_nodes_have_the_names_that_the_user_gave(shared, tmp_path):
    cases = {
        "--ips 10.77.0.1,10.77.0.2,10.77.0.3": "10.77.0.2, 10.77.0.3",
        "--nnodes 3 --rank 1 --master 10.77.0.1:8090": "ranks 0, 2",
    }
    jobs = [Job(shared.lab, tmp_path) for _ in cases]
    for job, words in zip(jobs, cases, strict=True):
        job.node(1, f"{words} --join-timeout 5")

    for job, missing in zip(jobs, cases.values(), strict=True):
        assert job.codes() == [75]
        (node,) = job.nodes.started
        assert f"waiting for nodes: 1 of 3 joined (host1); missing {missing}" in node.err
        assert f"did not join in time: 1 of 3 joined (host1); missing {missing}" in node.err


def test_a_master_that_does_not_come_is_named(shared, tmp_path):
    masters = ["10.77.0.3:8090", "etcd://10.77.0.3:2379", "late.example:8090"]
    jobs = [Job(shared.lab, tmp_path, master) for master in masters]
    for job in jobs:
        job.node(1, "--nnodes 2 --join-timeout 8")

    for job in jobs:
        assert job.codes() == [75]
        (node,) = job.nodes.started
        where = job.master.replace("etcd://", "etcd at ")
        why = "temporary failure in name resolution" if "late" in where else "connection refused"
        assert f"waiting for {where}: " in node.err
        assert where in last_words(node)
        assert why in last_words(node)
