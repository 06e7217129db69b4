"""Paddle on two hosts: the same training as on one machine, with Paddle's variables for two."""

from __future__ import annotations

import json
import os

import pytest

from tests.lab import Lab
from tests.lab.etcd import Etcd

from .conftest import Peer, script
from .over_hosts import MASTER, MISLEADING, Job, needs_lab

pytestmark = [pytest.mark.real, needs_lab]

WORKERS = {1: 2, 2: 1}  # of each host
PLACES = ((1, 0), (1, 1), (2, 0))  # host and local rank of each rank


@pytest.fixture
def lab():
    with Lab(3) as lab:
        yield lab


@pytest.fixture
def job(lab, tmp_path):
    return Job("paddle", lab, tmp_path, "paddle_data_parallel.py")


@pytest.fixture(scope="module")
def on_one_machine(tmp_path_factory):
    """What each of three ranks comes to when all are on this machine."""
    paddle = Peer("paddle", tmp_path_factory.mktemp("one"))
    paddle.flota("--nproc_per_node", "3", script("paddle_data_parallel.py"))
    return {rank: paddle.results(rank) for rank in range(len(PLACES))}


def train(job: Job, master: str) -> None:
    for number, workers in WORKERS.items():
        job.start([number], "--nnodes", 2, "--master", master, "--nproc_per_node", workers)
    job.finish()


@pytest.mark.parametrize("store", ["master", "etcd"] if os.environ.get("FLOTA_SOAK") else ["master"])
def test_two_hosts_train_as_one_machine_does(lab, job, tmp_path, on_one_machine, store):
    train(job, MASTER if store == "master" else f"etcd://{Etcd(lab.hosts[2:], tmp_path).addresses[0]}")

    assert job.results() == on_one_machine
    given = [variables(job, rank) for rank in range(len(PLACES))]
    check_endpoints(given)
    for rank, (number, local_rank) in enumerate(PLACES):
        assert given[rank].items() >= expected_variables(rank, number, local_rank).items()


def test_two_hosts_train_where_hostnames_mislead(lab, job, on_one_machine):
    for host in lab.hosts:
        host.etc_hosts(MISLEADING.format(host.name))

    train(job, MASTER)

    assert job.results() == on_one_machine


def test_pods_of_paddlecloud_train_like_one_machine_without_flags(job, on_one_machine):
    for number, workers in WORKERS.items():
        flags = ("--python", job.python, "--nproc_per_node", workers)
        job.on[number] = job.nodes.start(number, *flags, *job.trained, env=pod(number))
    job.finish()

    assert job.results() == on_one_machine
    given = [variables(job, rank) for rank in range(len(PLACES))]
    check_endpoints(given)
    assert given[0]["PADDLE_TRAINER_ENDPOINTS"] == "10.77.0.1:7001,10.77.0.1:7002,10.77.0.2:7001"


def pod(number: int) -> dict[str, str]:
    return {
        "PADDLE_TRAINERS": "10.77.0.1,10.77.0.2",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ID": str(number - 1),
        "POD_IP": f"10.77.0.{number}",
        "PADDLE_PORT": "7001",
        "TRAINER_PORTS_NUM": "2",
    }


def variables(job: Job, rank: int) -> dict[str, str]:
    """Paddle's variables as a rank got them."""
    lines = job.on[PLACES[rank][0]].log(rank).splitlines()
    [told] = [line for line in lines if line.startswith("VARIABLES ")]
    return json.loads(told.removeprefix("VARIABLES "))


def check_endpoints(given: list[dict[str, str]]) -> None:
    """One list for all, by rank, at the hosts' own addresses; and a master beside it, at rank 0's."""
    endpoints = given[0]["PADDLE_TRAINER_ENDPOINTS"].split(",")
    master = given[0]["PADDLE_MASTER"]
    assert [endpoint.rpartition(":")[0] for endpoint in endpoints] == [f"10.77.0.{number}" for number, _ in PLACES]
    assert master.rpartition(":")[0] == "10.77.0.1"
    assert len({*endpoints, master}) == len(PLACES) + 1
    for rank, each in enumerate(given):
        assert each["PADDLE_TRAINER_ENDPOINTS"].split(",") == endpoints
        assert each["PADDLE_CURRENT_ENDPOINT"] == endpoints[rank]
        assert each["PADDLE_MASTER"] == master


def expected_variables(rank: int, number: int, local_rank: int) -> dict[str, str]:
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_GLOBAL_RANK": str(rank),
        "PADDLE_TRAINERS_NUM": "3",
        "PADDLE_GLOBAL_SIZE": "3",
        "PADDLE_LOCAL_RANK": str(local_rank),
        "PADDLE_RANK_IN_NODE": str(local_rank),
        "PADDLE_LOCAL_SIZE": str(WORKERS[number]),
        "PADDLE_NNODES": "2",
        "PADDLE_DISTRI_BACKEND": "gloo",
    }
