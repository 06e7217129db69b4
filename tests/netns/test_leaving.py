"""SIGTERM to nodes of a job of fixed size with restarts: a node leaves, the others wait for one that takes its seat."""

from __future__ import annotations

import json
import signal

import pytest

from tests.launching import wait_until
from tests.netns.jobs import Job
from tests.netns.test_elastic import attempts, say, terminate

WORDS = "--nnodes 3 --max_restart 1"


@pytest.mark.parametrize("rank", ["", " --rank {}"])
def test_a_node_that_is_asked_to_stop_is_replaced_in_its_seat(job, rank):
    nodes = [job.node(host, WORDS + rank.format(host - 1)) for host in (1, 2, 3)]
    before = job.round(0, 3)

    terminate(nodes[1])

    assert nodes[1].wait() == 143
    for node in (nodes[0], nodes[2]):
        node.wait_for("host2 left; starting a new round")
        node.wait_for("waiting for nodes: 2 of 3 joined (host1, host3)")
    job.node(2, WORDS + rank.format(1))
    number = job.next_round(0)
    assert job.round(number, 3) == before
    assert attempts(job, number) == {"0"}
    job.finish()
    assert job.codes() == [0, 143, 0, 0]


def test_a_job_ends_if_no_node_takes_the_seat(job):
    nodes = job.start([1, 2, 3], f"{WORDS} --join-timeout 8")
    job.round(0, 3)

    terminate(nodes[2])

    assert job.codes() == [75, 75, 143]
    assert say(nodes[:2], "nodes did not join in time: 2 of 3 joined (host1, host2)")


def test_if_all_nodes_are_asked_to_stop_the_job_stops(job):
    nodes = job.start([1, 2, 3], WORDS)
    job.round(0, 3)

    terminate(*reversed(nodes))

    assert job.codes() == [143, 143, 143]
    assert job.rounds() == [0]
    assert say(nodes, "stopped by SIGTERM")


def test_the_node_that_serves_the_master_cannot_leave(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master("http"))
    nodes = job.start([1, 2, 3], WORDS)
    job.round(0, 3)

    terminate(nodes[0])

    assert job.codes() == [143, 143, 143]
    assert job.rounds() == [0]
    assert say(nodes, "host1 was asked to stop")


SAVES = """
import os, time
import flota

step = 0
if os.environ["FLOTA_ROUND"] == "0":
    while not flota.should_stop():
        step += 1
        flota.heartbeat(step)
        open(f"{os.environ['STAGE']}/begun.{os.environ['RANK']}", "w").close()
        time.sleep(0.01)
    open(f"{os.environ['STAGE']}/saved.{os.environ['RANK']}", "w").write(str(step))
"""


def test_all_ranks_save_at_one_step_before_the_node_leaves(job, tmp_path):
    script = tmp_path / "saves.py"
    script.write_text(SAVES)
    nodes = job.start([1, 2, 3], WORDS, script)
    wait_until(lambda: len(list(job.stage.glob("begun.*"))) == 3, "all ranks at work")

    terminate(nodes[1])

    assert nodes[1].wait() == 143
    assert len({path.read_text() for path in job.stage.glob("saved.*")}) == 1
    assert len(list(job.stage.glob("saved.*"))) == 3
    job.node(2, WORDS, script)
    assert job.codes() == [0, 143, 0, 0]


def test_every_node_names_the_signal_that_preempted_the_job(job, tmp_path):
    script = tmp_path / "saves.py"
    script.write_text(SAVES)
    nodes = job.start([1, 2], f"--nnodes 2 --preempt_signal SIGUSR1 --log_dir {job.stage}/log", script)
    wait_until(lambda: len(list(job.stage.glob("begun.*"))) == 2, "all ranks at work")

    nodes[1].process.send_signal(signal.SIGUSR1)

    assert job.codes() == [75, 75]
    assert say(nodes, "preempted by SIGUSR1 after ")
    assert json.loads((job.stage / "log" / "report.json").read_text())["stopped_by"] == "SIGUSR1"


IGNORES = """
import os, signal, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"{os.environ['STAGE']}/begun.{os.environ['RANK']}", "w").close()
time.sleep(60)
"""


@pytest.mark.parametrize("asked", [0, 1])
def test_node_0_has_a_report_if_it_is_killed_while_the_job_stops(job, tmp_path, asked):
    script = tmp_path / "ignores.py"
    script.write_text(IGNORES)
    nodes = job.start([1, 2], f"--nnodes 2 --log_dir {job.stage}/log", script)
    wait_until(lambda: len(list(job.stage.glob("begun.*"))) == 2, "all ranks at work")
    report = job.stage / "log" / "report.json"

    terminate(nodes[asked])
    wait_until(report.exists, "a report")
    nodes[0].process.kill()
    nodes[1].process.kill()

    assert job.codes() == [-9, -9]
    found = json.loads(report.read_text())
    assert (found["final"], found["verdict"], found["exit_code"], found["world_size"]) == (False, "stopped", 143, 2)
