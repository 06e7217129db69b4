"""Pods of PaddleCloud as hosts: with addresses, as it gives them to a pod, or with names, as it gives them to services."""

from __future__ import annotations

import json

import pytest

from tests.netns.jobs import MEETS, Job
from tests.netns.test_joining import everybody


def pod(hosts: list[str], number: int, **more: str) -> dict[str, str]:
    return {
        "PADDLE_TRAINERS": ",".join(hosts),
        "PADDLE_TRAINERS_NUM": str(len(hosts)),
        "PADDLE_TRAINER_ID": str(number),
        "POD_IP": hosts[number],
        "TRAINER_PORTS_NUM": "2",
        "PADDLE_PORT": "7001",
        "TRAINING_ROLE": "TRAINER",
        **more,
    }


@pytest.mark.parametrize("hosts", [["10.77.0.2", "10.77.0.1"], ["host2", "host1"]], ids=["addresses", "names"])
def test_the_same_command_on_every_pod_is_one_job_in_the_platforms_order(town, tmp_path, hosts):
    job = Job(town.lab, tmp_path)
    nodes = [job.node(2 - number, "--nproc_per_node 2", MEETS, pod(hosts, number)) for number in (1, 0)]

    assert job.codes() == [0, 0]
    assert nodes[1].log(0) == nodes[0].log(3) == everybody(("host2", 2), ("host1", 2))
    endpoints = (nodes[1].directory / "log" / "endpoints.log").read_text().splitlines()[1:]
    assert endpoints == [f"{host}:{port}" for host in hosts for port in (7001, 7002)]


def test_more_workers_than_ports_have_free_ones(town, tmp_path):
    job = Job(town.lab, tmp_path)
    hosts = ["10.77.0.1", "10.77.0.2"]
    one, _ = [job.node(number + 1, "--nproc_per_node 3", MEETS, pod(hosts, number)) for number in range(2)]

    assert job.codes() == [0, 0]
    assert one.log(0) == everybody(("host1", 3), ("host2", 3))
    assert "on PaddleCloud: 2 nodes, which meet at 10.77.0.1:7000" in one.err


def test_a_failure_in_one_pod_ends_the_job_in_all(town, tmp_path):
    job = Job(town.lab, tmp_path)
    hosts = ["10.77.0.1", "10.77.0.2", "10.77.0.3"]
    for number in range(3):
        job.node(number + 1, "", env=pod(hosts, number))
    job.round(0, 3)

    job.fail(2, 9)

    assert job.codes() == [9, 9, 9]
    report = json.loads((job.nodes.started[0].directory / "log" / "report.json").read_text())
    assert report["failures"][0]["rank"] == 2
