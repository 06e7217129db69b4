"""Paddle with parameter servers: 2.6 trains with them, 3.3 has only the roles left, and gloo."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.lab import Lab
from tests.launching import Flota, Running, assert_nobody_left, wait_until

from .conftest import Peer, fact, results, script
from .over_hosts import MASTER, PATIENCE, Job, needs_lab

pytestmark = pytest.mark.real

RUNS = range(5 if os.environ.get("FLOTA_SOAK") else 1)
WANTED_LOSS = 0.05
GATE = "gate"
GRACE = ("--grace", "2")  # servers of 2.6 never end by themselves


@pytest.fixture
def paddle(tmp_path):
    return Peer("paddle-ps", tmp_path)


@pytest.mark.parametrize("_", RUNS)
@pytest.mark.parametrize(("servers", "trainers"), [(1, 2), (2, 4)])
def test_a_job_ends_although_its_servers_would_serve_forever(paddle, servers, trainers, _):
    ended = paddle.flota(*counts(servers, trainers), *GRACE, script("paddle_ps.py"))

    told = {rank: paddle.results(rank) for rank in range(trainers)}
    check_trained(told, servers)
    assert results(ended.out) == told[0]
    check_served([paddle.said(number, role="server") for number in range(servers)])


@needs_lab
def test_a_server_and_a_trainer_on_each_of_two_hosts_train_together(tmp_path):
    with Lab(2) as lab:
        job = Job("paddle-ps", lab, tmp_path, "paddle_ps.py")

        job.start([1, 2], "--nnodes", 2, "--master", MASTER, *counts(1, 1), *GRACE)

        job.finish()
        check_trained(job.results(), servers=2)
        check_served([(tmp_path / f"host{number}/log/serverlog.{number - 1}").read_text() for number in (1, 2)])


@pytest.mark.parametrize("_", RUNS)
@pytest.mark.parametrize(
    ("role", "rank", "name", "log"), [("trainer", 1, "rank 1", "workerlog.1"), ("server", 0, "server 0", "serverlog.0")]
)
def test_a_killed_worker_ends_the_job_by_its_name(flota, paddle, role, rank, name, log, _):
    running = start_training(flota, paddle)

    kill(paddle, role, rank)

    _, err = running.output(PATIENCE)
    assert running.process.returncode == 128 + signal.SIGKILL
    assert_nobody_left(spared=flota.before)
    report = paddle.report()
    assert report["exit_code"] == 128 + signal.SIGKILL
    first = report["failures"][0]
    assert (first["role"], first["rank"], first["signal"]) == (role, rank, signal.SIGKILL)
    assert f"{name} failed first: SIGKILL" in err
    assert f"log: {paddle.directory / 'log' / log}" in err


@pytest.mark.parametrize("_", RUNS)
def test_a_job_whose_server_is_killed_restarts_training(flota, paddle, _):
    running = start_training(flota, paddle, "--max_restart", "1")

    kill(paddle, "server", 0)
    wait_until(lambda: paddle.said(0, role="server").count("SERVING index=0\n") == 2, "another server", PATIENCE)
    (paddle.directory / GATE).touch()

    _, err = running.output(PATIENCE)
    assert running.process.returncode == 0, err
    assert_nobody_left(spared=flota.before)
    assert "server 0 failed: SIGKILL" in err
    check_trained({rank: paddle.results(rank) for rank in (0, 1)}, servers=1)


def test_paddle_3_finds_its_roles_and_its_trainers_connect_to_the_first_server(tmp_path):
    paddle = Peer("paddle", tmp_path)

    # The store that the first server has for gloo checks every 5 s whether it is needed: flota stops the server before.
    ended = paddle.flota(*counts(1, 2), "--with_gloo", "1", script("paddle_ps_roles.py"))

    assert "1 server, 2 trainers finished successfully" in ended.err
    trainers = [result for rank in (0, 1) for result in paddle.results(rank)]
    assert [(fact(one, "role"), fact(one, "index"), fact(one, "total")) for one in trainers] == [
        ("trainer", "0", "3.0"),
        ("trainer", "1", "3.0"),
    ]
    assert len({(fact(one, "servers"), fact(one, "trainers")) for one in trainers}) == 1
    assert len(fact(trainers[0], "servers").split(",")) == 1
    assert len(fact(trainers[0], "trainers").split(",")) == 2


def counts(servers: int, trainers: int) -> tuple[str, ...]:
    return ("--server_num", str(servers), "--trainer_num", str(trainers))


def check_trained(told: dict[int, list[str]], servers: int) -> None:
    """A trainer begins with weights of its own that nobody has trained, and ends when all are trained."""
    world = len(told)
    # A trainer that comes late finds the others' part trained already.
    assert max(float(fact(one, "first")) for [one] in told.values()) > 0.9 / world
    for rank, results_of_rank in told.items():
        [result] = results_of_rank
        expected = (str(rank), str(world), str(servers))
        assert (fact(result, "rank"), fact(result, "world"), fact(result, "servers")) == expected
        assert float(fact(result, "last")) <= WANTED_LOSS


def check_served(logs: list[str]) -> None:
    for number, said in enumerate(logs):
        assert f"SERVING index={number}\n" in said


def start_training(flota: Flota, paddle: Peer, *flags: str) -> Running:
    """A job that trains until the gate opens."""
    words = (*counts(1, 2), *GRACE, *flags, script("paddle_ps.py"), GATE)
    running = flota.start(*words, command=[paddle.bin / "flota"])
    for rank in (0, 1):
        log = paddle.directory / "log" / f"workerlog.{rank}"
        wait_until(lambda log=log: is_training(running, log), f"a step of rank {rank}", PATIENCE)
    return running


def is_training(running: Running, log: Path) -> bool:
    assert running.process.poll() is None, running.output()[1]
    return log.exists() and "step 0 loss " in log.read_text()


def kill(paddle: Peer, role: str, rank: int) -> None:
    """By the pid that programs are told; a trainer's role goes without saying."""
    [events] = (paddle.directory / "log").glob("events.*.jsonl")
    told = [json.loads(line) for line in events.read_text().splitlines()]
    started = [event for event in told if event["event"] == "worker_started"]
    [pid] = [event["pid"] for event in started if (event.get("role", "trainer"), event["rank"]) == (role, rank)]
    os.kill(pid, signal.SIGKILL)
