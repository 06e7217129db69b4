"""Commands on a job of several hosts: from its nodes, from a host that is not in the job, and with a silent node."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.launching import DEADLINE, environment, wait_until
from tests.netns.jobs import ETCD, HTTP, LONG_LEASE, Job

TOKEN = {"FLOTA_TOKEN": "the-token-of-this-test"}
OUTSIDE = 7  # a host that is not in the job


def flota(job, host, *words, env=None):
    """Run a command on a host."""
    command = [sys.executable, "-m", "flota", *map(str, words)]
    return job.lab.host(host).run(command, cwd=job.stage, env=environment(env), timeout=DEADLINE)


def outside(job, *words):
    return flota(job, OUTSIDE, *words, "--at", endpoint_of(job), env=TOKEN)


def endpoint_of(job):
    (facts,) = json.loads(flota(job, 2, "ps", "--json").stdout)
    return facts["endpoint"]


def hosts_of(answer):
    return [node["host"] for node in answer["nodes"]]


def test_a_job_is_seen_from_its_nodes_and_from_outside(job):
    job.start([1, 2, 3], "--nnodes 3 --nproc_per_node 2", env=TOKEN)
    job.round(0, 6)

    for listed in (flota(job, 3, "ps", "--json"), outside(job, "ps", "--json")):
        (facts,) = json.loads(listed.stdout)
        assert (facts["job_id"], facts["state"], facts["ranks"]) == (job.name, "running", 6)
        assert facts["hosts"] == ["host1", "host2", "host3"]
    for shown in (flota(job, 3, "top", "--json"), outside(job, "top", "--json")):
        answer = json.loads(shown.stdout)
        assert (hosts_of(answer), answer["missing"]) == (["host1", "host2", "host3"], [])
        assert [rank["rank"] for node in answer["nodes"] for rank in node["ranks"]] == [0, 1, 2, 3, 4, 5]
    assert "running on host1, host2, host3\nit has not restarted\n" in outside(job, "why").stdout
    assert "ranks: " in outside(job, "stack").stdout
    assert "3 (host1, host2, host3)" in flota(job, 1, "ps").stdout
    strange = flota(job, OUTSIDE, "ps", "--at", endpoint_of(job), env={"FLOTA_TOKEN": "wrong"})
    assert strange.returncode == 2 and "does not have the job's token" in strange.stderr.splitlines()[0]
    job.finish()
    assert job.codes() == [0, 0, 0]


@pytest.mark.parametrize("words", ["--nnodes 3", "--nnodes 1:3 --elastic_timeout 1"])
def test_stop_ends_all_nodes_of_any_job(job, words):
    job.start([1, 2, 3], words, env=TOKEN)
    job.settle(3)

    ended = outside(job, "stop")  # host 2, which does not serve the master

    assert (ended.returncode, ended.stdout) == (0, "flota: stopping the job\n")
    assert job.codes() == [143, 143, 143], job


def test_restart_begins_a_round_on_all_nodes(job):
    job.start([1, 2, 3], "--nnodes 3", env=TOKEN)
    job.round(0, 3)

    assert outside(job, "restart").stdout == "flota: restarting all workers\n"

    assert [one.host for one in job.round(1, 3)] == ["host1", "host2", "host3"]
    (facts,) = json.loads(flota(job, 1, "ps", "--json").stdout)
    assert (facts["attempt"], facts["restarts"]) == (0, 1)
    job.finish()
    assert job.codes() == [0, 0, 0]


def test_a_drained_node_leaves_an_elastic_job(job):
    nodes = job.start([1, 2, 3], "--nnodes 1:3 --elastic_timeout 1", env=TOKEN)
    first = job.settle(3)

    ended = flota(job, 2, "drain", "host1")
    if job.etcd:
        assert (ended.returncode, ended.stdout) == (0, "flota: this node leaves the job\n")
        assert nodes[0].wait() == 143
    else:
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "this node serves the job's master" in ended.stderr.splitlines()[0]
        assert flota(job, 1, "drain", "host3").returncode == 0
        assert nodes[2].wait() == 143

    left = job.settle(2, after=first.number)
    assert sorted(left.hosts) == (["host2", "host3"] if job.etcd else ["host1", "host2"])
    job.finish()
    assert sorted(job.codes()) == [0, 0, 143]


def test_another_node_takes_the_seat_of_a_drained_one(job):
    words = "--nnodes 3 --max_restart 2"
    nodes = job.start([1, 2, 3], words, env=TOKEN)
    job.round(0, 3)

    assert outside(job, "drain", 1).stdout == "flota: this node leaves the job\n"
    assert nodes[1].wait() == 143
    job.node(4, words, env=TOKEN)

    assert job.settle(3, after=0).hosts == ["host1", "host4", "host3"]
    (facts,) = json.loads(flota(job, 4, "ps", "--json").stdout)
    assert facts["attempt"] == 0
    job.finish()
    assert job.codes() == [0, 143, 0, 0]


def test_a_spare_is_drained_by_the_name_of_its_host(job):
    words = "--nnodes 2 --spares 2"
    job.start([1, 2], words, env=TOKEN)
    job.round(0, 2)
    spares = [job.node(number, words, env=TOKEN) for number in (3, 4)]
    for spare in spares:
        spare.wait_for("this node is a spare")

    assert flota(job, 1, "drain", "host3").stdout == "flota: this node leaves the job\n"
    assert flota(job, 4, "drain", "host4").stdout == "flota: this node leaves the job\n"

    assert [spare.wait() for spare in spares] == [143, 143]
    job.finish()
    assert job.codes() == [0, 0, 143, 143]


def test_a_job_is_stopped_from_the_host_of_a_spare(job):
    words = "--nnodes 2 --spares 1"
    job.start([1, 2], words, env=TOKEN)
    job.round(0, 2)
    job.node(3, words, env=TOKEN).wait_for("this node is a spare")

    assert "ranks: " in flota(job, 3, "stack").stdout
    assert flota(job, 3, "restart").stdout == "flota: restarting all workers\n"
    job.round(1, 2)
    assert flota(job, 3, "stop").stdout == "flota: stopping the job\n"
    assert job.codes() == [143, 143, 143]


@pytest.mark.parametrize(("kind", "fault"), [(HTTP, "stopped"), (ETCD, "cut off")])
def test_a_silent_node_is_named_and_the_others_are_shown(shared, tmp_path, kind, fault):
    job = Job(shared.lab, tmp_path, shared.master(kind))
    nodes = job.start([1, 2, 3], "--nnodes 3", env=TOKEN, lease=LONG_LEASE)
    job.round(0, 3)
    entry = endpoint_of(job)
    if fault == "stopped":
        nodes[2].process.send_signal(signal.SIGSTOP)
    else:
        job.lab.cut(3)

    for shown in (flota(job, 1, "top", "--json"), flota(job, OUTSIDE, "top", "--json", "--at", entry, env=TOKEN)):
        answer = json.loads(shown.stdout)
        assert hosts_of(answer) == ["host1", "host2"]
        assert [host for host, _ in answer["missing"]] == ["host3"]
    logs = flota(job, 1, "logs", "--all")
    assert "cannot ask http://10.77.0.3:" in logs.stderr and "Traceback" not in logs.stderr
    assert json.loads(flota(job, 2, "ps", "--json").stdout)[0]["hosts"] == ["host1", "host2", "host3"]
    refused = flota(job, 1, "drain", "host3")
    assert refused.returncode == 2 and "cannot ask http://10.77.0.3:" in refused.stderr.splitlines()[0]

    nodes[2].process.send_signal(signal.SIGCONT)
    job.lab.heal()
    wait_until(lambda: json.loads(flota(job, 1, "top", "--json").stdout)["missing"] == [], "the node's answer")
    job.finish()
    assert job.codes() == [0, 0, 0], job
