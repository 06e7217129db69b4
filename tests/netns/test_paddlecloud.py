"""Pods of PaddleCloud as hosts: with addresses, as it gives them to a pod, or with names, as it gives them to services."""

from __future__ import annotations

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
def test_the_same_command_on_every_pod_is_one_job_in_the_platforms_order(shared, tmp_path, hosts):
    job = Job(shared.lab, tmp_path)
    nodes = [job.node(2 - number, "--nproc_per_node 2", MEETS, pod(hosts, number)) for number in (1, 0)]

    assert job.codes() == [0, 0]
    assert nodes[1].log(0) == nodes[0].log(3) == everybody(("host2", 2), ("host1", 2))
    endpoints = (nodes[1].directory / "log" / "endpoints.log").read_text().splitlines()[1:]
    assert endpoints == [f"{host}:{port}" for host in hosts for port in (7001, 7002)]
