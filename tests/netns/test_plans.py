"""The address and the interface that a node of a job of many machines takes, as its plan shows."""

from __future__ import annotations

import json

import pytest

from tests.launching import COMMAND, WORKERS
from tests.netns.conftest import DEBIAN, HONEST, ONE_NETWORK


@pytest.fixture
def plan(machine):
    """The first worker's variables."""

    def make(words: str, **world: object) -> dict[str, str]:
        result = machine(COMMAND, *words.split(), "--dry-run", "--json", WORKERS / "sleeps.py", **world)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["workers"][0]["env"]

    return make


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("--nnodes 2", "10.9.0.5"),
        ("--nnodes 2 --master 10.9.0.6:8090", "10.9.0.6"),  # the master's address is ours
        ("--nnodes 2 --master box:8090", "10.9.0.5"),
        ("--nnodes 2 --master 10.8.0.9:8090", "10.8.0.5"),  # the one that faces the master
        ("--nnodes 2 --master [fd00:8::9]:8090", "[fd00:8::5]"),
        ("--nnodes 2 --master etcd://10.8.0.9", "10.8.0.5"),
        ("--nnodes 2 --master etcd://127.0.0.1", "10.9.0.5"),
        ("--nnodes 2 --master 127.0.0.1:8090", "127.0.0.1"),  # all nodes are here
        ("--nnodes 2 --node-rank 0", "127.0.0.1"),
        ("--nnodes 2 --rdzv-backend c10d", "127.0.0.1"),
        ("--nnodes 2 --master late.example:8090", "10.9.0.5"),  # a name that nobody knows yet
        ("--nnodes 2 --host 10.9.0.6 --master 10.8.0.9:8090", "10.9.0.6"),
        ("--nnodes 2 --network-interface eth1", "10.8.0.5"),
        ("--ips 10.9.0.6,10.9.0.9", "10.9.0.6"),
        ("--ips box,10.9.0.9", "10.9.0.5"),
    ],
)
def test_a_nodes_address(plan, words, address):
    assert plan(words)["PADDLE_CURRENT_ENDPOINT"] == f"{address}:<free>"


def test_a_flag_is_stronger_than_the_pods_own_variable(plan):
    assert plan("--nnodes 2 --network-interface eth1", env={"POD_IP": "10.9.0.6"})["FLOTA_MASTER"] == "10.8.0.5:<free>"
    assert plan("--nnodes 2", env={"POD_IP": "10.9.0.6"})["FLOTA_MASTER"] == "10.9.0.6:<free>"


@pytest.mark.parametrize(
    ("words", "hosts", "interface"),
    [
        ("--nnodes 2", DEBIAN, "eth0"),
        ("--nnodes 2 --master 10.8.0.9:8090", DEBIAN, "eth1"),
        ("--nnodes 2", HONEST, None),
        ("--nnodes 2 --network-interface eth1", HONEST, "eth1"),
        ("--nnodes 2 --master 127.0.0.1:8090", DEBIAN, None),
        ("--nproc_per_node 2", DEBIAN, None),
    ],
)
def test_the_interface_that_workers_get(plan, words, hosts, interface):
    env = plan(words, hosts=hosts)

    assert [env.get(f"{name}_SOCKET_IFNAME") for name in ("GLOO", "NCCL", "TP")] == [interface] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--nnodes 2 --network-interface eth9",
            "interface `eth9` does not exist, is down or has no address; available: `lo,eth0`",
        ),
        ("--nnodes 2 --network-interface far0", "interface `far0` does not exist, is down or has no address"),
        (
            "--nnodes 2 --network-interface eth0 --host 10.8.0.5",
            "--host 10.8.0.5 and --network-interface eth0 contradict",
        ),
        (
            "--ips 10.9.0.7,10.9.0.8",
            "this machine is not in --ips `10.9.0.7,10.9.0.8`; its addresses: `10.9.0.5,10.9.0.6`",
        ),
        ("--ips 10.9.0.5,10.9.0.6", "more than one address of this machine: `10.9.0.5,10.9.0.6`"),
    ],
)
def test_addresses_that_do_not_fit_are_answered(machine, words, message):
    result = machine(COMMAND, *words.split(), WORKERS / "sleeps.py", network=ONE_NETWORK)

    assert result.returncode == 2
    assert message in result.stderr
