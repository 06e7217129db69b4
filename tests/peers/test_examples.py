"""The examples: the command of each README, in its own folder, trains a model on two workers together."""

from __future__ import annotations

import re
import shutil

import pytest

from .conftest import Peer
from .environments import ROOT

pytestmark = pytest.mark.real

EXAMPLES = {
    "plain_python": "jax",  # any environment will do
    "torch_ddp": "torch",
    "paddle_low_level": "paddle",
    "paddle_model_fit": "paddle",
    "paddle_fleet": "paddle",
    "jax": "jax",
    "tensorflow": "tensorflow",
}
ALONE = ["plain_python", "torch_ddp", "paddle_low_level", "paddle_model_fit", "jax", "tensorflow"]
LEARNED = "y = 3.00 x + -2.00"


def peer_for(example, directory):
    """The example's framework, in a copy of its folder: logs are not for the repository."""
    shutil.copytree(ROOT / "examples" / example, directory / example)
    return Peer(EXAMPLES[example], directory / example)


def command_of(example):
    """The one command of its README."""
    text = (ROOT / "examples" / example / "README.md").read_text()
    [block] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    [command] = block.splitlines()
    return command.split()


def test_every_example_is_tried():
    elsewhere = {"tensorflow_ps"}  # it has roles: test_tensorflow_ps.py

    assert {path.name for path in (ROOT / "examples").iterdir()} - elsewhere == set(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_trains_on_two_workers(tmp_path, example):
    peer = peer_for(example, tmp_path)
    # In Paddle's environment the name fleetrun is Paddle's own.
    program, *words = command_of(example)
    assert program in ("flota", "fleetrun")

    peer.flota(*words)

    for rank in (0, 1):
        assert f"rank {rank} of 2: {LEARNED}" in peer.said(rank)


@pytest.mark.parametrize("example", ALONE)
def test_an_example_trains_alone(tmp_path, example):
    ended = peer_for(example, tmp_path).run("python", "train.py")

    assert ended.code == 0, ended.err
    assert f"rank 0 of 1: {LEARNED}" in ended.out
