"""Paddle: the same scripts under flota and under Paddle's own launcher."""

from __future__ import annotations

import pytest

from .conftest import Peer, fact, script

pytestmark = pytest.mark.real


@pytest.fixture
def paddle(tmp_path):
    return Peer("paddle", tmp_path)


@pytest.mark.parametrize("name", ["paddle_data_parallel.py", "paddle_fleet.py", "paddle_model_fit.py"])
def test_a_script_says_the_same_as_under_paddles_own_launcher(paddle, name):
    launched = paddle.run(
        "python", "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", "theirs", script(name)
    )
    assert launched.code == 0, launched.err

    paddle.flota("--nproc_per_node", "2", script(name))

    for rank in (0, 1):
        assert paddle.results(rank) == paddle.results(rank, "theirs")
        last = paddle.results(rank)[-1]
        assert (fact(last, "rank"), fact(last, "world")) == (str(rank), "2")
        # The workers saw other data, so equal weights mean that they trained together.
        assert fact(last, "weights") == fact(paddle.results(0)[-1], "weights")
