"""Which CPUs workers are bound to, on machines of several kinds.

The CPUs of XEON and EPYC with one worker per device were compared with those of `torch.numa.binding` of torch 2.13.
"""

from __future__ import annotations

import pytest

from flota.binding.modes import bind_workers
from flota.binding.topology import read_topology
from flota.errors.binding import NoCpus, TooFewCores

from .machines import ARM, CONTAINER, CXL, DESKTOP, EPYC, XEON

UNKNOWN = frozenset[int]()
XEON_DEVICES = (0, 0, 0, 0, 1, 1, 1, 1)
EPYC_DEVICES = (3, 1, 1, 0, 7, 5, 5, 4)


def near(*nodes):
    return [frozenset({node}) for node in nodes]


@pytest.fixture
def bind(tmp_path):
    """CPUs and memory node of each worker."""

    def bind(machine, mode, near):
        bindings = bind_workers(read_topology(machine.write(tmp_path)), mode, near)
        return [(bound.cpu_list, bound.memory_node) for bound in bindings]

    return bind


@pytest.mark.parametrize(
    ("mode", "first", "last"),
    [
        ("numa", "0-23,48-71", "24-47,72-95"),
        ("socket", "0-23,48-71", "24-47,72-95"),
        ("cache", "0-23,48-71", "24-47,72-95"),
        ("core", "0-5,48-53", "42-47,90-95"),
        ("auto", "0-23,48-71", "24-47,72-95"),
    ],
)
def test_workers_are_near_their_devices(bind, mode, first, last):
    bound = bind(XEON, mode, near(*XEON_DEVICES))

    assert bound[0] == (first, 0) and bound[-1] == (last, 1)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("numa", ["48-63,176-191", "16-31,144-159", "16-31,144-159", "0-15,128-143"]),
        ("socket", ["0-63,128-191"] * 4),
        ("cache", ["48-55,176-183", "16-23,144-151", "24-31,152-159", "0-7,128-135"]),
        ("core", ["48-63,176-191", "16-23,144-151", "24-31,152-159", "0-15,128-143"]),
        ("auto", ["48-63,176-191", "16-31,144-159", "16-31,144-159", "0-15,128-143"]),
    ],
)
def test_devices_may_be_on_any_numa_node(bind, mode, expected):
    assert [cpus for cpus, _ in bind(EPYC, mode, near(*EPYC_DEVICES))][:4] == expected


def test_a_worker_on_several_numa_nodes_prefers_the_memory_of_none(bind):
    assert bind(EPYC, "socket", near(5)) == [("64-127,192-255", -1)]
    assert bind(XEON, "numa", [frozenset({0, 1})]) == [("0-95", -1)]


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (2, ["0-15,128-143", "64-79,192-207"]),
        (8, ["0-15,128-143", "16-31,144-159", "32-47,160-175"]),
        (16, ["0-15,128-143", "0-15,128-143", "16-31,144-159"]),
    ],
)
def test_workers_without_devices_are_spread_evenly(bind, workers, expected):
    assert [cpus for cpus, _ in bind(EPYC, "numa", [UNKNOWN] * workers)][: len(expected)] == expected


@pytest.mark.parametrize(
    ("machine", "workers", "expected"),
    [
        (DESKTOP, 2, [("0-7", 0), ("8-15", 0)]),
        (DESKTOP, 3, [("0-5", 0), ("6-11", 0), ("12-15", 0)]),
        (ARM, 128, [(str(cpu), cpu // 64) for cpu in range(128)]),
        (CXL, 2, [("0-23,48-71", 0), ("24-47,72-95", 1)]),
        (CONTAINER, 3, [("2,50", 0), ("3", 0), ("26", -1)]),  # the container may not use the memory of node 1
    ],
)
def test_cores_are_divided_and_never_split(bind, machine, workers, expected):
    assert bind(machine, "core", [UNKNOWN] * workers) == expected


def test_cores_are_shared_with_a_worker_that_uses_several_nodes(bind):
    trainer, loader = bind(XEON, "core", [frozenset({0, 1}), frozenset({1})])

    assert trainer == ("0-35,48-83", -1)
    assert loader == ("36-47,84-95", 1)


def test_workers_share_a_cache_if_there_are_too_few(bind):
    assert [cpus for cpus, _ in bind(EPYC, "cache", near(0, 0, 0))] == ["0-7,128-135", "8-15,136-143", "0-7,128-135"]


def test_the_cache_with_the_most_allowed_cpus_comes_first(bind):
    assert bind(EPYC._replace(allowed="6-15"), "cache", near(0, 0)) == [("8-15", 0), ("6-7", 0)]


@pytest.mark.parametrize(
    ("machine", "near", "expected"),
    [
        (EPYC, [UNKNOWN] * 8, "0-15,128-143"),
        (EPYC, [UNKNOWN] * 2, "0-63,128-191"),  # with NUMA nodes, six of them would be idle
        (ARM, [UNKNOWN] * 2, "0-63"),
        (XEON, near(1), "24-47,72-95"),
        (CONTAINER, [UNKNOWN] * 3, "2-3,50"),
    ],
)
def test_auto_chooses_the_smallest_that_wastes_no_cpu(bind, machine, near, expected):
    assert bind(machine, "auto", near)[0][0] == expected


@pytest.mark.parametrize(
    ("machine", "near"),
    [
        (DESKTOP, [UNKNOWN] * 2),
        (DESKTOP, near(0, 0)),
        (XEON, [UNKNOWN]),
        (XEON._replace(allowed="0-3"), near(0, 1)),  # the second device's node has no CPU for us
    ],
)
def test_auto_does_not_bind_where_that_would_not_help(bind, machine, near):
    assert bind(machine, "auto", near) == []


@pytest.mark.parametrize("mode", ["numa", "socket", "cache", "core"])
def test_a_worker_without_cpus_is_an_error(bind, mode):
    with pytest.raises(NoCpus, match=f"--bind {mode} leaves worker 1 without CPUs: .* NUMA node 1, .* only CPUs 0-3\n"):
        bind(XEON._replace(allowed="0-3"), mode, near(0, 1))


def test_more_workers_than_cores_are_an_error(bind):
    with pytest.raises(TooFewCores, match="there are 8 for 9 workers on NUMA node 0"):
        bind(DESKTOP, "core", [UNKNOWN] * 9)


@pytest.mark.parametrize(
    ("mode", "near", "threads"),
    [
        ("core", [UNKNOWN] * 4, [24, 24, 24, 24]),
        ("numa", [UNKNOWN] * 4, [24, 24, 24, 24]),
        ("numa", near(0, 0, 0, 1), [16, 16, 16, 48]),
        ("numa", [UNKNOWN] * 200, [1] * 200),
    ],
)
def test_threads_are_a_workers_share_of_its_cpus(tmp_path, mode, near, threads):
    bindings = bind_workers(read_topology(XEON.write(tmp_path)), mode, near)

    assert [bound.threads for bound in bindings] == threads
