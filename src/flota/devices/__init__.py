"""Finds the visible accelerators of this machine, without importing a framework.

A variable such as CUDA_VISIBLE_DEVICES takes precedence; without one, the driver's device files are counted.
"""

from __future__ import annotations

import os
from _collections_abc import Callable, Mapping

from flota import errors
from flota.job.spec import NO_DEVICES, DeviceSet
from flota.values import NamedTuple

AMD_NODES = "sys/class/kfd/kfd/topology/nodes"


class Kind(NamedTuple):
    """One kind of accelerator: its name in Paddle's flags, the variables that list it, and its device files."""

    name: str
    variables: tuple[str, ...]
    files: str  # the prefix in /dev; one file per device
    vendor: str
    counted_by: Callable[[str], int] | None = None  # used if there is not one file per device


def _count_amd(root: str) -> int:
    """Count AMD devices. The driver also lists CPUs: only nodes with compute units are devices."""
    count = 0
    for node in _names_in(f"{root}{AMD_NODES}"):
        try:
            with open(f"{root}{AMD_NODES}/{node}/properties") as properties:
                count += any(line.startswith("simd_count ") and line.split()[1] != "0" for line in properties)
        except OSError:
            continue
    return count


# In order of precedence if several variables are set. As in Paddle, custom devices come first and CUDA last.
KINDS = (
    Kind("npu", ("ASCEND_RT_VISIBLE_DEVICES",), "davinci", "Huawei Ascend"),
    Kind("mlu", ("MLU_VISIBLE_DEVICES",), "cambricon_dev", "Cambricon"),
    Kind("gcu", ("TOPS_VISIBLE_DEVICES",), "gcu", "Enflame"),
    Kind("musa", ("MUSA_VISIBLE_DEVICES",), "mtgpu.", "Moore Threads"),
    Kind("intel_hpu", ("HABANA_VISIBLE_MODULES",), "hl", "Intel Gaudi"),
    Kind("neuron", ("NEURON_RT_VISIBLE_CORES",), "neuron", "AWS Neuron"),
    Kind("xpu", ("XPULINK_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES"), "xpu", "Kunlun"),
    Kind("intel_gpu", ("ZE_AFFINITY_MASK",), "", "Intel"),
    Kind("gpu", ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), "", "AMD", _count_amd),
    Kind("gpu", ("CUDA_VISIBLE_DEVICES",), "nvidia", "NVIDIA"),
)

TORCH_NAMES = {"intel_gpu": "xpu", "intel_hpu": "hpu"}  # kinds that torch calls by another name than Paddle


def find_devices(environ: Mapping[str, str], root: str = "/", kinds: tuple[Kind, ...] = ()) -> DeviceSet:
    """Return the visible devices of the first kind that has any. `kinds`: all by default."""
    kinds = kinds or KINDS
    for kind in kinds:
        for variable in kind.variables:
            ids = _ids(environ.get(variable, ""))
            if ids:
                return DeviceSet(kind.name, variable, ids, ids, by_id=False)
    prefixes = tuple(kind.files for kind in kinds if kind.files)
    files = [name for name in _names_in(f"{root}dev") if name.startswith(prefixes)]  # /dev has hundreds of others
    for kind in kinds:
        if any(variable in environ for variable in kind.variables):
            continue  # set but empty: the user disabled these devices
        numbered = [name for name in files if kind.files and name.startswith(kind.files)]
        count = sum(name[len(kind.files) :].isdecimal() for name in numbered)
        if kind.counted_by:
            count = kind.counted_by(root)
        if count:
            ids = tuple(str(number) for number in range(count))
            return DeviceSet(kind.name, kind.variables[-1], ids, ids, by_id=False)
    return NO_DEVICES


def choose_devices(found: DeviceSet, wanted: str | None, option: str = "--devices") -> DeviceSet:
    """Return the devices that the option names among the visible ones; all without it; none for `cpu`."""
    if wanted is None:
        return found
    if wanted == "cpu":
        return found._replace(kind="cpu", chosen=(), by_id=True)
    ids = tuple(part.strip() for part in wanted.split(",") if part.strip())
    for position, device in enumerate(ids or (wanted,)):
        if device not in found.visible:
            raise errors.UnknownDevice(device, found.kind, found.visible, option)
        if device in ids[:position]:
            raise errors.RepeatedDevice(device, option)
    return found._replace(chosen=ids, by_id=True)


def _ids(listed: str) -> tuple[str, ...]:
    """Parse a list of devices like CUDA: an id of -1 ends the list."""
    ids: list[str] = []
    for part in listed.split(","):
        device = part.strip()
        if device in ("", "-1", "none", "NoDevFiles"):
            break
        ids.append(device)
    return tuple(ids)


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
