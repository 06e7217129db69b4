"""flota in the lab: started on hosts, waited for, and looked for when it should be gone."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.lab import Lab, missing
from tests.lab.nodes import Nodes

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def nodes(tmp_path):
    with Lab(2) as lab:
        yield Nodes(lab, tmp_path)


def test_a_node_runs_in_its_own_directory_to_its_end(nodes):
    both = nodes.start_all("--nproc_per_node", 2, "fails.py", env={"FAIL_HOW": "7"})

    assert [node.wait() for node in both] == [7, 7]
    for node in both:
        node.wait_for("rank 1 failed first: exit code 7")
        node.assert_nobody_left()
        assert (node.directory / "log" / "workerlog.1").exists()


def test_survivors_are_the_jobs_processes_and_no_others(nodes):
    nodes.lab.host(1).popen(["sleep", "100"])
    one, other = nodes.start(1, "sleeps.py"), nodes.start(2, "sleeps.py")
    one.wait_for_file("ready.0.0")
    other.wait_for_file("ready.0.0")

    assert sum("sleeps.py" in command for command in one.survivors().values()) >= 2
    assert not set(one.survivors()) & set(other.survivors())
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 128 + signal.SIGTERM
    one.assert_nobody_left()
    assert len(other.survivors()) >= 2


def test_a_crash_leaves_nothing_of_a_node(nodes):
    node = nodes.start(1, "--nproc_per_node", 2, "sleeps.py")
    node.wait_for_file("ready.0.0", "ready.1.0")

    nodes.lab.crash(1)

    assert (node.wait(), node.survivors()) == (-signal.SIGKILL, {})


def test_waiting_for_missing_output_shows_the_output_so_far(nodes):
    node = nodes.start(1, "--nproc_per_node", 2, "fails.py", env={"FAIL_HOW": "7"})

    with pytest.raises(AssertionError, match="exit code 7"):
        node.wait_for("never said")


def test_waiting_for_an_end_that_does_not_come_gives_up(nodes):
    node = nodes.start(1, "sleeps.py")
    node.wait_for_file("ready.0.0")

    with pytest.raises(subprocess.TimeoutExpired):
        node.wait(0.1)
