"""Crashes on three hosts whose clocks are wrong by up to 5 s: every node names the right rank, host and cause."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.faults.groups import limited_group
from tests.faults.kinds import ADVANCES, CRASHES, EARLY, KINDS, MEMORY
from tests.launching import DEADLINE, state, wait_until
from tests.netns.jobs import ETCD, HTTP, LONG_LEASE, Job

HOSTS = [1, 2, 3]
CULPRIT = 2  # of 6, so on the second host
OFFSETS = {1: 0, 2: 5, 3: -5}
WORDS = "--nnodes 3 --nproc_per_node 2 --grace 5"


@pytest.fixture
def met(shared, tmp_path):
    """A job that meets at the embedded master."""
    return Job(shared.lab, tmp_path, shared.master(HTTP))


def start(job, host, fault, words=WORDS, offsets=OFFSETS):
    env = {"CULPRIT": str(CULPRIT), "FAULT": fault}
    return job.node(host, words, CRASHES, env, clock_offset=offsets[host])


def page(node):
    return node.err[node.err.index("ABORT!!!") :].splitlines()


def check(job, nodes, kind, verb="failed first"):
    assert job.codes() == [kind.code] * 3, job
    for node in nodes:
        assert page(node)[1].startswith(f"rank {CULPRIT} on host2 {verb}: {kind.ending}"), node.err
        assert page(node) == page(nodes[0])
        assert len(page(node)) <= 25
    report = json.loads((nodes[0].directory / "log" / "report.json").read_text())
    first = report["failures"][0]
    assert (first["rank"], first["node"], first["cause"]) == (CULPRIT, "host2", kind.cause)
    assert [failure["rank"] for failure in report["failures"]] == [CULPRIT]
    others = [*(one["rank"] for one in report["secondary_failures"]), *report["stopped_by_flota"]]
    assert sorted(others) == [0, 1, 3, 4, 5]
    assert seconds_to_report(nodes) < DEADLINE  # how fast it is, bench/blame.py measures


def seconds_to_report(nodes):
    """From the last worker's end to the last node's report: one machine has one clock that never jumps."""
    events = [
        json.loads(line)
        for node in nodes
        for path in (node.directory / "log").glob("events.*.jsonl")
        for line in path.read_text().splitlines()
    ]
    ends = {
        name: max(one["monotonic"] for one in events if one["event"] == name) for name in ("worker_exited", "job_ended")
    }
    return ends["job_ended"] - ends["worker_exited"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.fault)
def test_every_node_names_rank_host_and_cause(met, kind):
    nodes = [start(met, host, kind.fault) for host in HOSTS]

    check(met, nodes, kind)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.fault in ("raises", "dies_slowly", "is_killed")])
def test_the_same_with_an_etcd(shared, tmp_path, kind):
    job = Job(shared.lab, tmp_path, shared.master(ETCD))

    nodes = [start(job, host, kind.fault) for host in HOSTS]

    check(job, nodes, kind)


def test_a_rank_that_left_while_others_worked_is_named(met):
    nodes = [start(met, host, EARLY.fault) for host in HOSTS]

    check(met, nodes, EARLY, "exited too early")


def test_an_oom_kill_is_distinguished_from_a_kill_by_a_user(met):
    with limited_group(256) as group:
        first = start(met, 1, MEMORY.fault)
        second = start(met, 2, MEMORY.fault)
        (group / "cgroup.procs").write_text(str(second.process.pid))
        third = start(met, 3, MEMORY.fault)  # workers start when all are there

        check(met, [first, second, third], MEMORY)


@pytest.mark.parametrize(("fault", "restarts"), [("raises", 2), ("lacks_a_module", 0), ("exits", 0)])
def test_what_restarts_is_decided_for_all_by_the_cause(met, fault, restarts):
    words = f"{WORDS} --max_restart 2 --no-restart-on 7"
    nodes = [start(met, host, fault, words) for host in HOSTS]

    codes = met.codes()

    assert len(set(codes)) == 1
    for node in nodes:
        assert node.err.count("; restarting") == restarts
        assert ("not restarted: " in node.err) is (restarts == 0)


def test_a_crash_loop_ends_for_all_before_its_restarts_are_used_up(met):
    nodes = [start(met, host, "exits", f"{WORDS} --max_restart 50 --crash-loop 4 --backoff 0.2") for host in HOSTS]

    assert met.codes() == [7] * 3
    for node in nodes:
        assert node.err.count("; restarting") == 3
        assert "restarting in 0.2 s (3 of 50)" in node.err
        assert "not restarted: the same failure 4 times in a row, without progress" in node.err


def test_a_step_that_a_rank_of_another_node_has_reached_is_progress(met):
    env = {"CULPRIT": str(CULPRIT), "STAGE": str(met.stage)}
    words = f"{WORDS} --max_restart 3 --crash-loop 2 --backoff 0"
    nodes = [met.node(host, words, ADVANCES, env) for host in HOSTS]

    assert met.codes() == [3] * 3
    for node in nodes:
        assert node.err.count("; restarting") == 3
        assert "without progress" not in node.err


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1), (1, 0)])
@pytest.mark.parametrize("offsets", [(0, 5, -5), (0, -5, 5), (4.7, -4.9, 0.3)])
def test_the_order_of_failures_is_right_whatever_the_clocks_say(job, first, second, offsets):
    """The node of the first failure is asleep when it happens: the others hear of it after the second one, and nothing
    but the clocks can tell which was first."""
    clocks = zip(HOSTS, offsets, strict=True)
    nodes = [job.node(host, "--nnodes 3", clock_offset=offset, lease=LONG_LEASE) for host, offset in clocks]
    job.round(0, 3)
    pid = job.notes("worker", 0)[first]["pid"]

    nodes[first].process.send_signal(signal.SIGSTOP)
    job.fail(first, 8)
    wait_until(lambda: state(pid) == "X", "the first failure")
    time.sleep(1.5)  # that far apart: more than one way of an answer can take longer than another
    job.fail(second, 9)
    job.wait_for_records(1, '"failed"')
    nodes[first].process.send_signal(signal.SIGCONT)

    assert job.codes() == [8] * 3, job
    for node in nodes:
        assert f"rank {first} on host{first + 1} failed first: exit code 8" in node.err
        assert f"also failed on their own: rank {second} on host{second + 1} with exit code 9" in node.err


def test_why_tells_the_same_from_any_node_and_from_all_of_them_side_by_side(met):
    nodes = [start(met, host, "raises") for host in HOSTS]
    met.codes()

    def why(*words):
        command = [sys.executable, "-m", "flota", "why", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert why(met.stage) == page(nodes[0])
    assert why(*(node.directory / "log" for node in nodes)) == page(nodes[0])
    assert [why(node.directory / "log") for node in nodes] == [page(nodes[0])] * 3
