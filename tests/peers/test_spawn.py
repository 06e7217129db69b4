"""flota.spawn with the real frameworks, beside their own spawn where they have one."""

from __future__ import annotations

import os
import socket

import pytest

from .conftest import Peer, fact, results, script

pytestmark = pytest.mark.real


@pytest.fixture
def paddle(tmp_path):
    return Peer("paddle", tmp_path)


def ends_well(peer, *words):
    ended = peer.run("python", *words)
    assert ended.code == 0, ended.err + ended.out
    assert "theirs" in words or ended.left == []  # multiprocessing's own processes may outlive the program by a moment
    return sorted(results(ended.out))


def test_paddles_script_runs_with_each_documented_call(paddle):
    theirs = ends_well(paddle, script("paddle_spawn.py"), "3", "theirs")

    called = {call: ends_well(paddle, script("paddle_spawn.py"), call) for call in "123"}

    assert called["1"] == []
    assert len(called["2"]) == len(os.sched_getaffinity(0))
    assert called["3"] == theirs
    assert [fact(result, "backend") for result in called["3"]] == ["gloo", "gloo"]


def test_missing_devices_are_an_error_for_paddles_script(paddle):
    ended = paddle.run("python", script("paddle_spawn.py"), "4")

    assert ended.code == 1
    message, hint = ended.err.splitlines()[-2:]
    assert "unknown device `4`: this machine has no devices" in message
    assert hint == "hint: leave gpus out, or write devices='cpu'"
    assert ended.left == []


@pytest.fixture(scope="module")
def under_torchs_spawn(tmp_path_factory):
    torch = Peer("torch", tmp_path_factory.mktemp("theirs"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return ends_well(torch, script("torch_spawn.py"), "theirs", port)


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_ddp_in_functions_comes_to_the_same_loss_as_under_torchs_spawn(tmp_path, method, under_torchs_spawn):
    ended = ends_well(Peer("torch", tmp_path), script("torch_spawn.py"), method)

    assert ended == under_torchs_spawn
    assert [fact(result, "rank") for result in ended] == ["0", "1"]


def test_jax_in_functions_finds_its_processes(tmp_path):
    assert ends_well(Peer("jax", tmp_path), script("jax_spawn.py")) == ["RESULT [(2, [0, 1]), (2, [0, 1])]"]
