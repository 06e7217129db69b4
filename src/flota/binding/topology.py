"""The CPUs of this machine that flota may use: their NUMA nodes, sockets, caches and cores, as /sys lists them. CPUs
outside flota's own affinity and cpuset are left out, and so are NUMA nodes without CPUs."""

from __future__ import annotations

import os
from _collections_abc import Callable

from flota.values import NamedTuple

CPU = "sys/devices/system/cpu/cpu{}"
NODES = "sys/devices/system/node"
ONLINE = "sys/devices/system/cpu/online"


class Topology(NamedTuple):
    """Sets of CPUs. Each of `nodes`, `sockets`, `caches` and `cores` contains every CPU once, lowest first."""

    nodes: dict[int, frozenset[int]]  # by number
    sockets: tuple[frozenset[int], ...]
    caches: tuple[frozenset[int], ...]  # CPUs that share a last-level cache
    cores: tuple[frozenset[int], ...]  # CPUs that are threads of one core
    memory_nodes: frozenset[int]  # NUMA nodes whose memory flota may use
    online: int = 0  # CPUs of the whole machine

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset().union(*self.nodes.values())


def read_topology(root: str = "/") -> Topology:
    """Raises OSError if the system does not say which CPUs flota may use."""
    status = dict(line.split(":", 1) for line in read_file(f"{root}proc/self/status").splitlines() if ":" in line)
    if "Cpus_allowed_list" not in status:
        raise OSError
    allowed = parse_cpus(status["Cpus_allowed_list"])

    def group(path: str, fallback: frozenset[int] = frozenset()) -> Callable[[int], frozenset[int]]:
        return lambda cpu: _cpus_in(f"{root}{CPU.format(cpu)}/{path}") or fallback

    def cache(cpu: int) -> frozenset[int]:
        """The kernel numbers the caches of a CPU by level; virtual machines often have none."""
        indices = [name for name in names_in(f"{root}{CPU.format(cpu)}/cache") if name.startswith("index")]
        last = max(indices, key=lambda name: int(name[5:]), default="")
        return group(f"cache/{last}/shared_cpu_list", allowed)(cpu)

    return Topology(
        _numa_nodes(root, allowed),
        sockets=_partition(allowed, group("topology/core_siblings_list", allowed)),
        caches=_partition(allowed, cache),
        cores=_partition(allowed, group("topology/thread_siblings_list")),
        memory_nodes=parse_cpus(status.get("Mems_allowed_list", "")),
        online=len(_cpus_in(f"{root}{ONLINE}") or allowed),
    )


def _numa_nodes(root: str, allowed: frozenset[int]) -> dict[int, frozenset[int]]:
    numbers = sorted(int(name[4:]) for name in names_in(f"{root}{NODES}") if name[4:].isdecimal())
    nodes = {number: _cpus_in(f"{root}{NODES}/node{number}/cpulist") & allowed for number in numbers}
    # A kernel without support for NUMA lists none.
    return {number: cpus for number, cpus in nodes.items() if cpus} or {0: allowed}


def _partition(cpus: frozenset[int], group: Callable[[int], frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Divide the CPUs into groups. Reads one file per group, because a large machine has hundreds of CPUs."""
    groups: list[frozenset[int]] = []
    left = sorted(cpus)
    while left:
        groups.append(group(left[0]).intersection(left) | {left[0]})
        left = [cpu for cpu in left if cpu not in groups[-1]]
    return tuple(groups)


def parse_cpus(text: str) -> frozenset[int]:
    """Parse a list such as `0-3,8`."""
    ranges = (part.partition("-") for part in text.strip().split(",") if part.strip())
    return frozenset(cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1))


def _cpus_in(path: str) -> frozenset[int]:
    try:
        return parse_cpus(read_file(path))
    except OSError:
        return frozenset()


def read_file(path: str) -> str:
    with open(path) as file:
        return file.read()


def names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
