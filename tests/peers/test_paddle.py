"""Paddle: the same scripts under flota and under Paddle's own launcher."""

from __future__ import annotations

import pytest

from .conftest import Peer, fact, results, script

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


@pytest.mark.parametrize(
    ("role", "address", "place"), [("PSERVER", "127.0.0.3", "server=1"), ("TRAINER", "127.0.0.5", "trainer=1")]
)
def test_in_a_role_of_paddlecloud_a_script_finds_what_it_finds_without_a_launcher(paddle, role, address, place):
    servers = "127.0.0.2:7100,127.0.0.3:7100"
    pod = {
        "PADDLE_TRAINERS": "127.0.0.4,127.0.0.5,127.0.0.6",
        "PADDLE_TRAINERS_NUM": "3",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_PSERVERS_IP_PORT_LIST": servers,
        "PADDLE_PORT": "7100",
        "POD_IP": address,
        "TRAINER_PORTS_NUM": "1",
        "TRAINING_ROLE": role,
    }
    plain = paddle.run("python", script("paddle_cloud_role.py"), **pod)
    assert plain.code == 0, plain.err

    paddle.flota(script("paddle_cloud_role.py"), **pod)

    log = "server" if role == "PSERVER" else "worker"
    assert paddle.results(0, role=log) == results(plain.out) == [f"RESULT {place} servers={servers} trainers=3"]
