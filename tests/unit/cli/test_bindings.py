"""--bind: from a spec to the CPUs of its workers, on machines of several kinds."""

from __future__ import annotations

import pytest

from flota.cli.bindings import bind_to_cpus
from flota.errors.binding import NoTopology
from flota.job.roles import Role
from flota.job.spec import NO_DEVICES, Command, DeviceSet, JobSpec, LogSpec, MachineShare
from tests.unit.binding.machines import XEON

GPUS = DeviceSet("gpu", "CUDA_VISIBLE_DEVICES", ("0", "1"), ("0", "1"), by_id=False)


def spec(workers=2, devices=NO_DEVICES, **more):
    return JobSpec(Command("script", "train.py", (), "python"), workers, LogSpec("log"), devices=devices, **more)


@pytest.fixture
def root(tmp_path):
    """A Xeon with device 0 on NUMA node 1, and device 1 on NUMA node 0."""
    for address, node in (("0000:17:00.0", 1), ("0000:9a:00.0", 0)):
        (tmp_path / f"proc/driver/nvidia/gpus/{address}").mkdir(parents=True)
        (tmp_path / f"sys/bus/pci/devices/{address}").mkdir(parents=True)
        (tmp_path / f"sys/bus/pci/devices/{address}/numa_node").write_text(f"{node}\n")
    return XEON.write(tmp_path)


def cpus(spec):
    return [bound.cpu_list for bound in spec.bindings]


@pytest.mark.parametrize(("mode", "own"), [("node", "numa"), ("exclusive", "core"), ("core-complex", "cache")])
def test_torchruns_modes_are_modes_of_flota(root, mode, own):
    assert bind_to_cpus(spec(4), mode, root=root) == bind_to_cpus(spec(4), own, root=root)


def test_workers_follow_their_devices(root):
    assert cpus(bind_to_cpus(spec(devices=GPUS), "numa", root=root)) == ["24-47,72-95", "0-23,48-71"]


def test_a_single_worker_is_near_all_its_devices(root):
    assert cpus(bind_to_cpus(spec(1, devices=GPUS), "numa", root=root)) == ["0-95"]


def test_a_role_without_devices_shares_what_is_left(root):
    roles = (Role("data", 1, devices=NO_DEVICES), Role("trainer", 2))
    data, *trainers = cpus(bind_to_cpus(spec(3, devices=GPUS, roles=roles), "core", root=root))

    assert (data, trainers) == ("0-11,48-59", ["24-47,72-95", "12-23,60-71"])


@pytest.mark.parametrize(
    ("job", "threads"),
    [
        (spec(), 48),
        (spec(threads=3, threads_given=True), 0),
        (spec(1), 0),
        (spec(devices=GPUS), 0),
    ],
)
def test_threads_are_the_workers_cpus_unless_something_else_decides(root, job, threads):
    assert bind_to_cpus(job, "core", root=root).bindings[0].threads == threads


def test_a_system_without_a_list_of_cpus_cannot_bind(tmp_path):
    with pytest.raises(NoTopology, match="--bind numa needs Linux"):
        bind_to_cpus(spec(), "numa", root=f"{tmp_path}/")

    assert bind_to_cpus(spec(), "auto", root=f"{tmp_path}/") == spec()


def tasks(count, mode, root, assigned=0, **more):
    """The CPUs of each task of a platform that starts one per worker."""
    shares = [MachineShare(number, count, 0, 1) for number in range(count)]
    return [cpus(bind_to_cpus(spec(1, share=share, **more), mode, assigned, root)) for share in shares]


@pytest.mark.parametrize("mode", ["numa", "socket", "cache", "core", "auto"])
@pytest.mark.parametrize("devices", [NO_DEVICES, GPUS], ids=["cpu", "gpu"])
def test_tasks_of_one_machine_have_the_cpus_of_as_many_workers(root, mode, devices):
    workers = cpus(bind_to_cpus(spec(4, devices=devices), mode, root=root))

    assert tasks(4, mode, root, devices=devices) == [[own] for own in workers]


@pytest.mark.parametrize("assigned", [0, 24])
def test_a_task_that_has_cpus_of_its_own_uses_all_of_them(tmp_path, assigned):
    root = XEON._replace(allowed="12-23,60-71").write(tmp_path)

    assert tasks(4, "core", root, assigned) == [["12-23,60-71"]] * 4


def test_the_platform_knows_whether_few_cpus_are_those_of_all_tasks(tmp_path):
    root = XEON._replace(allowed="0-11,48-59").write(tmp_path)

    assert tasks(4, "core", root, assigned=6) == [["0-2,48-50"], ["3-5,51-53"], ["6-8,54-56"], ["9-11,57-59"]]


def test_both_threads_of_a_core_are_those_of_one_task(tmp_path):
    root = XEON._replace(allowed="7,55").write(tmp_path)

    assert tasks(2, "core", root, assigned=1) == [["7,55"]] * 2
