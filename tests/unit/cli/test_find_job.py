from __future__ import annotations

import pytest

from flota.cli.find_job import RunningNode, choose
from flota.control.status import JobStatus, NodeStatus, Status
from flota.errors import NoJobHere, SeveralJobs, UnknownJob


def node(pid: int, job: str = "default", directory: str = "/a", run: str = "", state: str = "running") -> RunningNode:
    told = JobStatus(1, job, state, directory=directory, log_dir=f"{directory}/log", run=run)
    return RunningNode(pid, None, Status(told, NodeStatus("host", pid)))


def test_the_only_job_is_meant():
    assert choose([node(1)], "", "/elsewhere").pid == 1


def test_the_job_of_this_directory_is_meant():
    assert choose([node(1), node(2, directory="/b")], "", "/b").pid == 2
    assert choose([node(1), node(2, directory="/b")], "", "/b/log").pid == 2


@pytest.mark.parametrize("name", ["second", "2"])
def test_a_job_is_chosen_by_its_id_or_pid(name):
    assert choose([node(1), node(2, "second")], name, "/a").pid == 2


def test_nodes_of_one_job_are_one_job():
    assert choose([node(1, run="9f2c"), node(2, run="9f2c")], "", "/a").pid == 1
    with pytest.raises(SeveralJobs):
        choose([node(1, run="9f2c"), node(2, run="77aa")], "", "/a")


def test_a_job_that_has_just_ended_comes_after_one_that_runs():
    assert choose([node(1, state="ended"), node(2)], "", "/a").pid == 2
    assert choose([node(1, state="ended")], "", "/a").pid == 1


def test_several_jobs_are_an_error_that_lists_them():
    with pytest.raises(SeveralJobs, match=r"default \(pid 1\), default \(pid 2\)"):
        choose([node(1), node(2)], "", "/a")


def test_an_unknown_job_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UnknownJob, match=r"`third`; running: default \(pid 1\), second \(pid 2\)"):
        choose([node(1), node(2, "second")], "third", "/a")


def test_no_job_is_an_error():
    with pytest.raises(NoJobHere):
        choose([], "", "/a")
