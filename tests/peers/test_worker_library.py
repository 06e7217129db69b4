"""flota.init_parallel_env, DataParallel and shutdown with the real frameworks: one script each, under launchers and alone."""

from __future__ import annotations

import json

import pytest

from .conftest import Peer, fact, results, script

pytestmark = pytest.mark.real


@pytest.fixture
def peer(tmp_path):
    return lambda framework: Peer(framework, tmp_path)


def check_pair(first, second):
    assert [(fact(told, "rank"), fact(told, "world"), fact(told, "sum")) for told in (first, second)] == [
        ("0", "2", "3.0"),
        ("1", "2", "3.0"),
    ]
    assert first.partition("weights=")[2] == second.partition("weights=")[2]


@pytest.mark.parametrize("framework", ["torch", "paddle", "jax", "tensorflow"])
def test_two_workers_are_connected(peer, framework):
    workers = peer(framework)

    workers.flota("--nproc_per_node", "2", script(f"library_{framework}.py"))

    [first], [second] = workers.results(0), workers.results(1)
    check_pair(first, second)


@pytest.mark.parametrize("framework", ["torch", "paddle", "jax", "tensorflow"])
def test_the_same_script_runs_as_a_single_process(peer, framework):
    ended = peer(framework).run("python", "-W", "error::UserWarning:__main__", script(f"library_{framework}.py"))

    assert ended.code == 0, ended.err
    [result] = results(ended.out)
    assert (fact(result, "rank"), fact(result, "world"), fact(result, "sum")) == ("0", "1", "1.0")
    assert "Currently not a parallel execution environment" not in ended.err
    if framework in ("jax", "tensorflow"):
        assert f"flota.DataParallel: {framework} has no model wrapper\nhint: " in ended.out


def test_it_works_under_torchrun(peer):
    ended = peer("torch").run("torchrun", "--nproc-per-node", "2", script("library_torch.py"))

    assert ended.code == 0, ended.err
    check_pair(*sorted(results(ended.out)))


def test_it_works_under_paddles_own_launcher(peer):
    paddle = peer("paddle")

    ended = paddle.run(
        "python", "-m", "paddle.distributed.launch", "--nproc_per_node", "2", script("library_paddle.py")
    )

    assert ended.code == 0, ended.err
    check_pair(*paddle.results(0), *paddle.results(1))


def test_torchs_record_and_flotas_write_the_same(peer):
    torch = peer("torch")

    for name in ("mine", "theirs"):
        ended = torch.run("torchrun", "--nproc-per-node", "1", script("records_twice.py"), name)
        assert ended.code == 1
        assert "ValueError: shard-00017 is torn" in ended.err
    mine, theirs = (json.loads((torch.directory / f"{name}.json").read_text()) for name in ("mine", "theirs"))

    assert mine["message"]["message"] == theirs["message"]["message"] == "ValueError: shard-00017 is torn"
    assert mine.keys() == theirs.keys()
    assert mine["message"]["extraInfo"].keys() == theirs["message"]["extraInfo"].keys()
