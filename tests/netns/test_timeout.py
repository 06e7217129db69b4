"""--timeout on several machines: it ends the whole job, with the same exit code on all nodes."""

from __future__ import annotations

import json

import pytest

from tests.netns.jobs import last_words
from tests.netns.test_leaving import SAVES

ENDED = "flota: stopped after --timeout"


@pytest.mark.parametrize("words", ["--nnodes 3", "--nnodes 3 --max_restart 2", "--nnodes 1:3 --elastic_timeout 1"])
def test_all_nodes_of_any_job_end_with_the_same_code(job, words):
    nodes = job.start([1, 2, 3], f"{words} --timeout 4s --log_dir {job.stage}/log")

    assert job.codes() == [124, 124, 124], job
    assert {last_words(node) for node in nodes} == {f"{ENDED} 4s"}
    report = json.loads((job.stage / "log" / "report.json").read_text())
    assert (report["verdict"], report["exit_code"], report["reason"]) == ("stopped", 124, "stopped after --timeout 4s")


def test_all_ranks_save_at_one_step(job, tmp_path):
    script = tmp_path / "saves.py"
    script.write_text(SAVES)
    nodes = job.start([1, 2, 3], "--nnodes 3 --timeout 6s", script)

    assert job.codes() == [124, 124, 124], job
    saved = [path.read_text() for path in job.stage.glob("saved.*")]
    assert len(saved) == 3 and len(set(saved)) == 1
    assert {last_words(node) for node in nodes} == {f"{ENDED} 6s: all ranks saved and exited"}


def test_a_node_without_the_flag_ends_with_the_others(job):
    nodes = [job.node(1, "--nnodes 2"), job.node(2, "--nnodes 2 --timeout 3s")]

    assert job.codes() == [124, 124], job
    assert {last_words(node) for node in nodes} == {f"{ENDED} 3s"}
