"""Finds the NUMA nodes of accelerators, from what the drivers of NVIDIA and AMD say about their PCI addresses."""

from __future__ import annotations

from _collections_abc import Callable

from flota.binding.topology import names_in, read_file

NVIDIA = "proc/driver/nvidia/gpus"
AMD = "sys/class/kfd/kfd/topology/nodes"
PCI = "sys/bus/pci/devices"


def nodes_of(variable: str, devices: tuple[str, ...], root: str = "/") -> frozenset[int]:
    """Return the NUMA nodes of devices that are listed in a variable such as CUDA_VISIBLE_DEVICES. Empty if there are
    no devices, or if the node of one is not known."""
    find = ADDRESSES.get(variable)
    addresses = find(root) if find and devices else {}
    nodes = {_node(root, addresses.get(device, "")) for device in devices}
    return frozenset(nodes) if min(nodes, default=-1) >= 0 else frozenset()


def _node(root: str, address: str) -> int:
    """-1 if it is not known: many virtual machines do not say."""
    try:
        return int(read_file(f"{root}{PCI}/{address}/numa_node")) if address else -1
    except (OSError, ValueError):
        return -1


def _read_lines(path: str) -> list[str]:
    try:
        return read_file(path).splitlines()
    except OSError:
        return []


def _nvidia_addresses(root: str) -> dict[str, str]:
    """PCI addresses by number and by UUID. Like nvidia-smi, CUDA numbers equal devices by their addresses."""
    addresses = {}
    for number, name in enumerate(sorted(names_in(f"{root}{NVIDIA}"))):
        addresses[str(number)] = name.lower()
        for line in _read_lines(f"{root}{NVIDIA}/{name}/information"):
            key, _, value = line.partition(":")
            if key == "GPU UUID":
                addresses[value.strip()] = name.lower()
    return addresses


def _amd_addresses(root: str) -> dict[str, str]:
    """PCI addresses by number. The driver also lists CPUs, which have no compute units."""
    found: list[str] = []
    for name in sorted(names_in(f"{root}{AMD}"), key=lambda name: (len(name), name)):
        pairs = (line.split() for line in _read_lines(f"{root}{AMD}/{name}/properties"))
        properties = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
        if properties.get("simd_count"):
            domain, place = properties.get("domain", 0), properties.get("location_id", 0)
            found.append(f"{domain:04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}")
    return {str(number): address for number, address in enumerate(found)}


ADDRESSES: dict[str, Callable[[str], dict[str, str]]] = {
    "CUDA_VISIBLE_DEVICES": _nvidia_addresses,
    "HIP_VISIBLE_DEVICES": _amd_addresses,
    "ROCR_VISIBLE_DEVICES": _amd_addresses,
}
