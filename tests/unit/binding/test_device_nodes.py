"""The NUMA nodes of devices, from recorded files of drivers."""

from __future__ import annotations

import pytest

from flota.binding.device_nodes import nodes_of

CUDA, HIP = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
INFORMATION = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 213\nGPU UUID: \t GPU-{0}\nBus Location: \t {1}\nDevice Minor: \t {0}\n"
# The driver's minor numbers do not follow the addresses.
NVIDIA = {"0000:17:00.0": (1, 0), "0000:3d:00.0": (0, 0), "0001:05:00.0": (2, 1), "0001:06:00.0": (3, -1)}
AMD = ("simd_count 0\nlocation_id 0\n", *(f"simd_count 432\nlocation_id {place}\ndomain 0\n" for place in (256, 49920)))


@pytest.fixture
def root(tmp_path):
    files = {f"sys/bus/pci/devices/{address}/numa_node": node for address, (_, node) in NVIDIA.items()}
    for address, (minor, _) in NVIDIA.items():
        files[f"proc/driver/nvidia/gpus/{address}/information"] = INFORMATION.format(minor, address)
    files |= {f"sys/class/kfd/kfd/topology/nodes/{number}/properties": text for number, text in enumerate(AMD)}
    files |= {"sys/bus/pci/devices/0000:01:00.0/numa_node": 2, "sys/bus/pci/devices/0000:c3:00.0/numa_node": 3}
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return f"{tmp_path}/"


@pytest.mark.parametrize(
    ("variable", "devices", "nodes"),
    [
        (CUDA, ("0",), {0}),
        (CUDA, ("2",), {1}),
        (CUDA, ("GPU-2",), {1}),
        (CUDA, ("0", "2"), {0, 1}),
        (HIP, ("0",), {2}),
        (HIP, ("1",), {3}),
    ],
)
def test_the_driver_names_the_addresses(root, variable, devices, nodes):
    assert nodes_of(variable, devices, root) == nodes


@pytest.mark.parametrize(
    ("variable", "devices"),
    [
        (CUDA, ()),
        (CUDA, ("3",)),  # the machine does not say
        (CUDA, ("0", "3")),
        (CUDA, ("MIG-5",)),
        (HIP, ("2",)),
        ("ASCEND_RT_VISIBLE_DEVICES", ("0",)),
        ("", ()),
    ],
)
def test_what_is_not_known_is_not_guessed(root, variable, devices):
    assert nodes_of(variable, devices, root) == frozenset()
