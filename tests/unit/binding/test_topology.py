"""Reading the topology of a machine."""

from __future__ import annotations

import pytest

from flota.binding.topology import Topology, parse_cpus, read_topology

from .machines import ARM, CONTAINER, CXL, DESKTOP, EPYC, XEON


def sets(*lists):
    return tuple(map(parse_cpus, lists))


def test_a_large_machine_has_all_levels(tmp_path):
    topology = read_topology(EPYC.write(tmp_path))

    assert topology.nodes[7] == parse_cpus("112-127,240-255")
    assert topology.sockets == sets(*EPYC.sockets)
    assert topology.caches == sets(*EPYC.caches)
    assert topology.cores[:2] == sets("0,128", "1,129") and len(topology.cores) == 128
    assert topology.cpus == parse_cpus("0-255")


@pytest.mark.parametrize(("machine", "cores"), [(DESKTOP, ("0-1", "2-3")), (XEON, ("0,48", "1,49")), (ARM, ("0", "1"))])
def test_the_threads_of_a_core_are_found_wherever_they_are(tmp_path, machine, cores):
    assert read_topology(machine.write(tmp_path)).cores[:2] == sets(*cores)


def test_memory_without_cpus_is_not_a_node_for_workers(tmp_path):
    topology = read_topology(CXL.write(tmp_path))

    assert list(topology.nodes) == [0, 1]
    assert topology.memory_nodes == {0, 1, 2}


def test_only_what_the_node_may_use_is_there(tmp_path):
    topology = read_topology(CONTAINER.write(tmp_path))

    assert topology == Topology(
        {0: parse_cpus("2-3,50"), 1: parse_cpus("26")},
        sockets=sets("2-3,50", "26"),
        caches=sets("2-3,50", "26"),
        cores=sets("2,50", "3", "26"),
        memory_nodes=frozenset({0}),
        online=96,
    )


def test_without_l3_the_last_cache_counts(tmp_path):
    assert read_topology(ARM.write(tmp_path)).caches[5:7] == sets("5", "6")


def test_a_kernel_that_lists_only_cpus_has_one_of_everything(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("Cpus_allowed_list:\t0-2\n")

    everything = parse_cpus("0-2")
    assert read_topology(f"{tmp_path}/") == Topology(
        {0: everything}, (everything,), (everything,), sets("0", "1", "2"), frozenset(), online=3
    )


def test_a_system_without_the_list_of_cpus_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_topology(f"{tmp_path}/")
