"""Nodes that differ are told so on all nodes when they join, instead of waiting in silence."""

from __future__ import annotations

import pytest

from tests.netns.jobs import STANDS_IN


def copy_of(path, directory, more=""):
    directory.mkdir()
    copy = directory / path.name
    copy.write_text(path.read_text() + more)
    return copy


def test_another_script_on_one_host_is_reported_by_all(job, tmp_path):
    same, other = copy_of(STANDS_IN, tmp_path / "same"), copy_of(STANDS_IN, tmp_path / "other", "# changed\n")

    nodes = [job.node(1, "--nnodes 3"), job.node(2, "--nnodes 3", same), job.node(3, "--nnodes 3", other)]

    for node in nodes:
        node.wait_for("warning: the nodes have different scripts: sha256 ")
    job.round(0, 3)
    job.finish()
    assert job.codes() == [0, 0, 0]
    assert all("on host1, host2; sha256" in node.err and " on host3\n" in node.err for node in nodes)
    assert all(node.err.count("different scripts") == 1 for node in nodes)


def test_with_strict_another_script_is_an_error(job, tmp_path):
    other = copy_of(STANDS_IN, tmp_path / "other", "# changed\n")

    nodes = [job.node(1, "--nnodes 2 --strict"), job.node(2, "--nnodes 2 --strict", other)]

    assert job.codes() == [2, 2]
    assert job.rounds() == []
    assert all("error: the nodes have different scripts" in node.err for node in nodes)


@pytest.mark.parametrize(("offset", "words"), [(40.0, "ahead"), (-40.0, "behind")])
def test_a_wrong_clock_is_a_warning(job, offset, words):
    nodes = [job.node(1, "--nnodes 2")]
    job.wait_for_records(1)

    nodes.append(job.node(2, "--nnodes 2", clock_offset=offset))

    for node in nodes:
        node.wait_for("the clock of host2 is ")
    job.round(0, 2)
    job.finish()
    assert job.codes() == [0, 0]
    seconds = [float(node.err.partition("the clock of host2 is ")[2].split()[0]) for node in nodes]
    assert all(39 < one < 41 for one in seconds), seconds
    assert all(f" s {words}\n" in node.err for node in nodes)


@pytest.mark.parametrize("strict", [False, True])
def test_an_address_that_others_cannot_reach_is_reported(job, strict):
    host = job.lab.host(3)
    host.ip("addr replace 10.99.0.3/32 dev lo")
    words = "--nnodes 3" + " --strict" * strict

    nodes = [*job.start([1, 2], words), job.node(3, f"{words} --host 10.99.0.3")]

    for node in nodes:
        node.wait_for("host2 cannot reach host3 at 10.99.0.3:")
    job.finish()
    assert job.codes() == ([2, 2, 2] if strict else [0, 0, 0])


def test_equal_nodes_get_no_warning(job):
    nodes = job.start([1, 2, 3], "--nnodes 3")
    job.round(0, 3)
    job.finish()

    assert job.codes() == [0, 0, 0]
    for words in ("the nodes have different", "the clock of", "cannot reach"):
        assert not any(words in node.err for node in nodes)
