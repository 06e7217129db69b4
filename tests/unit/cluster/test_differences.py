"""Which differences between nodes, and shortages of a node, are reported."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flota.cluster.differences import NodeFacts, find_problems
from flota.cluster.node_record import NodeRecord
from flota.job.roster import NO_PORTS

FACTS = NodeFacts("3.11", "0.1.0", (("torch", "2.5.1"),), "1f2e")


def record(number, facts=FACTS, address=""):
    address = address or f"10.0.0.{number}"
    return NodeRecord("job", f"host{number}", address, NO_PORTS, 3, 3, ("torch",), facts=facts)


def problems_with(third, **offsets):
    return find_problems([record(1), record(2), third], offsets)


def test_equal_nodes_have_no_problems():
    assert problems_with(record(3), host3=0.9, host2=-0.9) == ()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"python": "3.10"}, "versions of Python: 3.11 on host1, host2; 3.10 on host3"),
        ({"flota": "0.2.0"}, "versions of flota: 0.1.0 on host1, host2; 0.2.0 on host3"),
        ({"frameworks": (("torch", "2.4.0"),)}, "versions of torch: 2.5.1 on host1, host2; 2.4.0 on host3"),
        ({"script": "aaaa"}, "scripts: sha256 1f2e on host1, host2; sha256 aaaa on host3"),
    ],
)
def test_a_difference_names_the_hosts(other, words):
    assert problems_with(record(3, replace(FACTS, **other))) == (f"the nodes have different {words}",)


@pytest.mark.parametrize("unknown", [{"python": ""}, {"frameworks": ()}, {"script": ""}])
def test_what_a_node_does_not_know_is_not_compared(unknown):
    assert problems_with(record(3, replace(FACTS, **unknown))) == ()


def test_a_node_without_facts_is_not_compared():
    assert problems_with(record(3, None)) == ()


def test_a_wrong_clock_is_reported():
    assert problems_with(record(3), host2=-2.04, host3=61.0) == (
        "the clock of host2 is 2.0 s behind",
        "the clock of host3 is 61.0 s ahead",
    )


def test_a_node_may_lack_shared_memory_and_open_files():
    assert problems_with(record(3, replace(FACTS, shm=64 << 20, files=256))) == (
        "host3 has only 64 MiB free in /dev/shm, which data loaders use",
        "host3 allows only 256 open files: raise `ulimit -n`",
    )


@pytest.mark.parametrize("address", ["127.0.1.1", "::1"])
def test_other_hosts_cannot_reach_a_loopback_address(address):
    words = f"other nodes cannot reach host3 at {address}: set --host there"

    assert problems_with(record(3, address=address)) == (words,)
    assert find_problems([record(3, address=address)], {}) == ()
