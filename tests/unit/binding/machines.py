"""Machines in a compact form, written as the files in /sys and /proc from which flota reads a topology.

`siblings` is the distance between the CPUs of a core: 48 if the second threads come after all first ones, 1 if they are
neighbors, 0 without a second thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from flota.binding.modes import list_cpus
from flota.binding.topology import parse_cpus


class Machine(NamedTuple):
    nodes: tuple[str, ...]  # the CPUs of each NUMA node; empty for memory without CPUs
    sockets: tuple[str, ...]
    caches: tuple[str, ...] = ()  # CPUs that share an L3; without one, the last cache is the L2 of each core
    siblings: int = 0
    allowed: str = ""  # all by default
    memory: str = ""  # nodes whose memory is allowed; all by default

    def write(self, root: Path) -> str:
        files = {f"sys/devices/system/node/node{number}/cpulist": cpus for number, cpus in enumerate(self.nodes)}
        files["sys/devices/system/node/has_cpu"] = "not a node"
        files["sys/devices/system/cpu/online"] = list_cpus(self.cpus())
        for cpu in self.cpus():
            base = f"sys/devices/system/cpu/cpu{cpu}"
            core, socket = self.core(cpu), next(cpus for cpus in self.sockets if cpu in parse_cpus(cpus))
            files |= {f"{base}/topology/thread_siblings_list": core, f"{base}/topology/core_siblings_list": socket}
            files |= {f"{base}/cache/index{index}/shared_cpu_list": core for index in range(3)}
            files |= {f"{base}/cache/index3/shared_cpu_list": cpus for cpus in self.caches if cpu in parse_cpus(cpus)}
        memory = self.memory or f"0-{len(self.nodes) - 1}"
        status = f"Name:\tflota\nCpus_allowed_list:\t{self.allowed or list_cpus(self.cpus())}\n"
        files["proc/self/status"] = f"{status}Mems_allowed_list:\t{memory}"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        return f"{root}/"

    def cpus(self) -> list[int]:
        return sorted(frozenset[int]().union(*map(parse_cpus, self.nodes)))

    def core(self, cpu: int) -> str:
        first = cpu - cpu % 2 if self.siblings == 1 else cpu % (self.siblings or len(self.cpus()))
        return list_cpus({first, first + self.siblings})


def _both_threads(first: int, count: int, siblings: int) -> str:
    return f"{first}-{first + count - 1},{first + siblings}-{first + siblings + count - 1}"


XEON_SOCKETS = ("0-23,48-71", "24-47,72-95")
XEON = Machine(XEON_SOCKETS, XEON_SOCKETS, XEON_SOCKETS, siblings=48)
# Two sockets with 64 cores each, in four NUMA nodes of two L3 caches each.
EPYC = Machine(
    nodes=tuple(_both_threads(16 * node, 16, 128) for node in range(8)),
    sockets=("0-63,128-191", "64-127,192-255"),
    caches=tuple(_both_threads(8 * cache, 8, 128) for cache in range(16)),
    siblings=128,
)
DESKTOP = Machine(("0-15",), ("0-15",), ("0-15",), siblings=1)
CXL = Machine((*XEON_SOCKETS, ""), XEON_SOCKETS, XEON_SOCKETS, siblings=48)
ARM = Machine(("0-63", "64-127"), ("0-127",))
CONTAINER = XEON._replace(allowed="2-3,26,50", memory="0")
