"""Each platform in the environments that it, or its documentation, gives to a process; what it cannot mean is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flota.job.spec import MachineShare
from flota.platforms import REGISTRY, Hints, find_marked, find_platforms

ENVIRONMENTS = Path(__file__).parent / "platforms" / "environments"
TABLES = {path.stem: json.loads(path.read_text()) for path in sorted(ENVIRONMENTS.glob("*.json"))}
CASES = {row["case"]: row for rows in TABLES.values() for row in rows}


def variables(case: str, **changes: str) -> dict[str, str]:
    return {**CASES[case]["variables"], **changes}


def expected(values: dict) -> Hints:
    share = {"share": MachineShare(*values["share"])} if "share" in values else {}
    ports = {"ports": range(values["ports"][0], values["ports"][-1] + 1)} if "ports" in values else {}
    spare = {"spare_ports": tuple(values["spare_ports"])} if "spare_ports" in values else {}
    return Hints(**{**values, **share, **ports, **spare})


def test_every_platform_has_a_table():
    assert set(TABLES) == {platform.name for platform in REGISTRY} | {"none"}


@pytest.mark.parametrize("case", CASES)
def test_an_environment_is_recognised(case):
    row = CASES[case]

    found = find_platforms(row["variables"], lambda path: row.get("files", {}).get(path, ""))

    assert [platform.title for platform, _ in found] == row["platforms"]
    if found:
        assert found[0][1] == expected(row["hints"])


@pytest.mark.parametrize("case", CASES)
def test_a_worker_of_flota_is_on_no_platform(case):
    assert find_marked(variables(case, FLOTA_GIVEN="RANK")) == []


@pytest.mark.parametrize("platform", REGISTRY, ids=lambda platform: platform.name)
def test_nodes_of_one_job_agree_on_the_master(platform):
    rows = TABLES[platform.name]
    masters: dict[str, set[str]] = {}
    for row in rows:
        hints = row["hints"]
        if hints.get("nodes", 1) > 1 and hints.get("job_id"):
            masters.setdefault(f"{hints['job_id']} {hints['nodes']}", set()).add(hints["master"])

    assert all(len(places) == 1 for places in masters.values())


@pytest.mark.parametrize(
    ("case", "name", "value", "wanted"),
    [
        ("slurm-srun-1-per-node-task1", "SLURM_NODEID", "2", "a number below SLURM_STEP_NUM_NODES=2"),
        ("slurm-srun-1-per-node-task1", "SLURM_STEP_NUM_NODES", "many", "a number from 1"),
        ("slurm-srun-1-per-node-task1", "SLURM_STEP_NODELIST", "gpu[01-", "a list of hosts (brackets do not match)"),
        ("slurm-srun-1-per-node-task1", "SLURM_STEP_ID", "x", "a number from 0"),
        ("slurm-srun-4-per-node-task7", "SLURM_PROCID", "8", "a number below SLURM_STEP_NUM_TASKS=8"),
        ("slurm-srun-4-per-node-task7", "SLURM_LOCALID", "4", "a number below SLURM_STEP_TASKS_PER_NODE=4"),
        ("slurm-srun-4-per-node-task7", "SLURM_STEP_TASKS_PER_NODE", "4", "a list of numbers of tasks"),
        ("slurm-srun-4-per-node-task7", "SLURM_STEP_TASKS_PER_NODE", "4(x", "a list of numbers of tasks"),
        ("openmpi4-rank3", "OMPI_COMM_WORLD_RANK", "4", "a number below OMPI_COMM_WORLD_SIZE=4"),
        ("openmpi4-rank3", "OMPI_COMM_WORLD_SIZE", "-4", "a number from 1"),
        ("openmpi4-rank3", "OMPI_COMM_WORLD_LOCAL_SIZE", "5", "a number from 1 to 4"),
        ("prterun-rank3", "PMIX_RANK", "none", "a number from 0"),
        ("lsf-jsrun-task1", "JSM_NAMESPACE_RANK", "2", "a number below JSM_NAMESPACE_SIZE=2"),
        ("pbs-pbsdsh-node1", "PBS_NODENUM", "2", "a number below the hosts in PBS_NODEFILE=2"),
        ("sagemaker-algo2", "SM_HOSTS", '["algo-1"', "a JSON list of names"),
        ("sagemaker-algo2", "SM_HOSTS", "[1]", "a JSON list of names"),
        ("sagemaker-algo2", "SM_CURRENT_HOST", "algo-3", "one of SM_HOSTS"),
        ("azureml-pytorch-1-per-node", "NODE_RANK", "2", "a number below AZUREML_NODE_COUNT=2"),
        ("azureml-pytorch-4-per-node", "WORLD_SIZE", "7", "a multiple of AZUREML_NODE_COUNT=2"),
        ("azureml-pytorch-4-per-node", "MASTER_PORT", "0", "a number from 1 to 65535"),
        ("pai-dlc-worker0", "RANK", "2", "a number below WORLD_SIZE=2"),
        ("pai-dlc-worker0", "WORLD_SIZE", "two", "a number from 1"),
        ("skypilot-node1", "SKYPILOT_NODE_RANK", "2", "a number below SKYPILOT_NUM_NODES=2"),
        ("skypilot-node1", "SKYPILOT_NUM_NODES", "3", "the number of addresses in SKYPILOT_NODE_IPS, 2"),
        ("dstack-node1", "DSTACK_NODE_RANK", "2", "a number below DSTACK_NODES_NUM=2"),
        ("leaderworkerset-worker2", "LWS_WORKER_INDEX", "3", "a number below LWS_GROUP_SIZE=3"),
        ("volcano-env-svc-worker1", "HOSTNAME", "other", "in VC_MASTER_HOSTS or VC_WORKER_HOSTS"),
        ("volcano-pytorch-worker1", "RANK", "3", "a number below WORLD_SIZE=3"),
        ("tpu-gke-worker1", "TPU_WORKER_ID", "4", "a number below the hosts in TPU_WORKER_HOSTNAMES=4"),
        ("tpu-gke-multislice", "MEGASCALE_SLICE_ID", "2", "a number below MEGASCALE_NUM_SLICES=2"),
        ("kubernetes-indexed-job-pod2", "JOB_COMPLETION_INDEX", "x", "a number from 0"),
        ("kubeflow-pytorchjob-worker1", "PET_NODE_RANK", "3", "a number below PET_NNODES=3"),
        ("kubeflow-pytorchjob-worker1", "PET_NNODES", "1:x", "a number or MIN:MAX"),
        ("kubeflow-paddlejob-worker1", "PADDLE_NNODES", "0", "a number from 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_named_with_its_variable(case, name, value, wanted):
    row = CASES[case]

    found = find_platforms(variables(case, **{name: value}), lambda path: row.get("files", {}).get(path, ""))

    platform, hints = found[0]
    assert platform.title == row["platforms"][0]
    assert hints.problem
    assert hints.problem.message == f"{platform.title}'s {name} is not {wanted}: `{value}`"


def test_without_a_known_host_there_is_no_master():
    without = variables("openmpi4-rank3", OMPI_MCA_orte_hnp_uri="")
    pod = variables("kubernetes-indexed-job-pod2", HOSTNAME="machine7")

    assert find_platforms(without)[0][1].master == ""
    assert find_platforms(pod)[0][1].master == ""


@pytest.mark.parametrize(
    ("pod", "rank", "master"),
    [
        ("train-workers-0-1", 1, "train-workers-0-0.train:8090"),
        ("train-a-b-1-1", -1, "train-a-b-0-0.train:8090"),
        ("train-1", -1, ""),
        ("other-workers-0-1", -1, ""),
        ("", -1, ""),
    ],
)
def test_a_pod_of_a_jobset_is_known_by_its_name(pod, rank, master):
    hints = find_platforms(variables("jobset-pod", HOSTNAME=pod))[0][1]

    assert (hints.rank, hints.master) == (rank, master)


def test_a_service_named_master_addr_alone_is_not_pai_dlc():
    assert find_platforms(variables("pai-dlc-worker0", MASTER_ADDR="10.0.0.1")) == []


@pytest.mark.parametrize(("machine", "tasks"), [("0", 4), ("1", 4), ("2", 1)])
def test_slurms_machines_may_have_different_numbers_of_tasks(machine, tasks):
    environ = variables(
        "slurm-srun-4-per-node-task4",
        SLURM_STEP_TASKS_PER_NODE="4(x2),1",
        SLURM_STEP_NUM_NODES="3",
        SLURM_STEP_NUM_TASKS="9",
        SLURM_STEP_NODELIST="gpu[01-03]",
        SLURM_NODEID=machine,
        SLURMD_NODENAME=f"gpu0{int(machine) + 1}",
    )

    share = find_platforms(environ)[0][1].share

    assert share == MachineShare(0, tasks, int(machine), 3)


def test_two_steps_of_a_slurm_job_have_two_ports():
    one, other = (
        find_platforms(variables("slurm-srun-1-per-node-task1", SLURM_STEP_ID=step))[0][1] for step in ("0", "1")
    )

    assert (one.master, other.master) == ("gpu01:20001", "gpu01:21010")
    assert (one.job_id, other.job_id) == ("1.0", "1.1")
