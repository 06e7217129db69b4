"""Finding and choosing devices, on made-up machines."""

from __future__ import annotations

import pytest

from flota.devices import choose_devices, find_devices
from flota.errors import RepeatedDevice, UnknownDevice
from flota.job.plan import devices_of
from flota.job.spec import NO_DEVICES


def machine(tmp_path, *files):
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return f"{tmp_path}/"


@pytest.mark.parametrize(
    ("files", "kind", "variable", "count"),
    [
        (["dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm"], "gpu", "CUDA_VISIBLE_DEVICES", 2),
        (["dev/davinci0", "dev/davinci1", "dev/davinci_manager"], "npu", "ASCEND_RT_VISIBLE_DEVICES", 2),
        (["dev/xpu0", "dev/xpuctrl"], "xpu", "XPU_VISIBLE_DEVICES", 1),
        (["dev/cambricon_dev0", "dev/cambricon_ctl"], "mlu", "MLU_VISIBLE_DEVICES", 1),
        (["dev/neuron0", "dev/neuron1"], "neuron", "NEURON_RT_VISIBLE_CORES", 2),
        (["dev/hl0", "dev/hl_controlD0"], "intel_hpu", "HABANA_VISIBLE_MODULES", 1),
        (["dev/mtgpu.0"], "musa", "MUSA_VISIBLE_DEVICES", 1),
    ],
)
def test_the_drivers_own_list_counts(tmp_path, files, kind, variable, count):
    found = find_devices({}, machine(tmp_path, *files))

    assert (found.kind, found.variable, found.visible) == (kind, variable, tuple(map(str, range(count))))


def test_amds_list_also_contains_cpus(tmp_path):
    root = machine(tmp_path)
    for node, units in enumerate((0, 120, 120)):
        properties = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{node}/properties"
        properties.parent.mkdir(parents=True)
        properties.write_text(f"cpu_cores_count 8\nsimd_count {units}\n")

    assert find_devices({}, root).visible == ("0", "1")


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("4,5,6", ("4", "5", "6")),
        ("GPU-8a1b,MIG-9c", ("GPU-8a1b", "MIG-9c")),
        ("0, 1", ("0", "1")),
        ("2,-1,3", ("2",)),
    ],
)
def test_a_set_variable_is_believed(tmp_path, value, visible):
    assert find_devices({"CUDA_VISIBLE_DEVICES": value}, machine(tmp_path, "dev/nvidia0")).visible == visible


@pytest.mark.parametrize("value", ["", "-1"])
def test_empty_or_minus_1_means_none(tmp_path, value):
    assert find_devices({"CUDA_VISIBLE_DEVICES": value}, machine(tmp_path, "dev/nvidia0")) == NO_DEVICES


def test_a_machine_without_devices(tmp_path):
    assert find_devices({}, machine(tmp_path, "dev/null")) == NO_DEVICES


@pytest.mark.parametrize(
    ("environ", "kind", "variable"),
    [
        ({"CUDA_VISIBLE_DEVICES": "4,5", "XPU_VISIBLE_DEVICES": "1"}, "xpu", "XPU_VISIBLE_DEVICES"),
        ({"XPU_VISIBLE_DEVICES": "1", "XPULINK_VISIBLE_DEVICES": "2"}, "xpu", "XPULINK_VISIBLE_DEVICES"),
        ({"CUDA_VISIBLE_DEVICES": "0", "ASCEND_RT_VISIBLE_DEVICES": "1"}, "npu", "ASCEND_RT_VISIBLE_DEVICES"),
        ({"CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1"}, "gpu", "HIP_VISIBLE_DEVICES"),
        ({"CUDA_VISIBLE_DEVICES": "", "MLU_VISIBLE_DEVICES": "1"}, "mlu", "MLU_VISIBLE_DEVICES"),
    ],
)
def test_precedence_among_kinds_is_paddles(tmp_path, environ, kind, variable):
    found = find_devices(environ, machine(tmp_path))

    assert (found.kind, found.variable) == (kind, variable)


def test_devices_are_chosen_as_listed(tmp_path):
    found = find_devices({"CUDA_VISIBLE_DEVICES": "4,5,6"}, machine(tmp_path))

    chosen = choose_devices(found, "6,4")

    assert (chosen.chosen, chosen.narrowed, chosen.by_id) == (("6", "4"), True, True)


def test_cpu_means_none(tmp_path):
    found = find_devices({"CUDA_VISIBLE_DEVICES": "4,5"}, machine(tmp_path))

    assert choose_devices(found, "cpu").chosen == ()


@pytest.mark.parametrize(
    ("wanted", "error"), [("7", UnknownDevice), ("4,4", RepeatedDevice), (",", UnknownDevice), ("gpu", UnknownDevice)]
)
def test_ids_are_checked(tmp_path, wanted, error):
    found = find_devices({"CUDA_VISIBLE_DEVICES": "4,5"}, machine(tmp_path))

    with pytest.raises(error):
        choose_devices(found, wanted)


@pytest.mark.parametrize(
    ("chosen", "workers", "given"),
    [
        (("4", "5", "6"), 1, [("4", "5", "6")]),
        (("4", "5", "6"), 2, [("4",), ("5",)]),
        (("4", "5"), 3, [("4",), ("5",), ("4",)]),
        ((), 2, [(), ()]),
    ],
)
def test_a_single_worker_gets_all_and_several_get_one_each(chosen, workers, given):
    assert [devices_of(chosen, rank, workers) for rank in range(workers)] == given
