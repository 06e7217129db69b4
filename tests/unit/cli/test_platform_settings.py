"""From a platform's hints to settings: what the user says takes precedence, and what follows for workers and logs."""

from __future__ import annotations

import pytest

from flota.cli.build_spec import count_threads, make_spec, restart_policy
from flota.cli.nodes_spec import make_nodes
from flota.cli.parse import parse
from flota.cli.platform_settings import read_host_file, read_platform
from flota.cli.settings import Request, gather
from flota.devices import find_devices
from flota.errors import BadPlatformValue, Contradiction, MasterWithoutNodes, NoFirstHost
from flota.job.nodes import Place
from flota.job.plan import plan_workers
from flota.job.roster import Ports, Roster, Seat
from flota.job.spec import NO_DEVICES, MachineShare
from tests.unit.test_platforms import variables

TASK = variables("slurm-srun-1-per-node-task1")
SCRIPT = variables("slurm-sbatch-batch-step")
SHARED = variables("slurm-srun-4-per-node-task7")
POD = variables("kubernetes-indexed-job-pod2")
MPI = variables("openmpi5-rank3", PMIX_NAMESPACE="")
PYTORCHJOB = variables("kubeflow-pytorchjob-worker1")


@pytest.fixture
def asked(tmp_path):
    """What a command comes to on a platform."""

    def ask(words: str, environ: dict[str, str], config: str = "") -> Request:
        if config:
            (tmp_path / "flota.toml").write_text(config)
        line = parse([*words.split(), "train.py"])
        return read_platform(Request(line, gather(line.given, environ, str(tmp_path)), environ, None), environ)

    return ask


def given(request: Request) -> dict[str, tuple[object, str]]:
    return {dest: (found.value, found.source) for dest, found in request.settings.given.items()}


def test_a_task_of_srun_needs_no_flags(asked):
    request = asked("", TASK)

    assert given(request) == {
        "nnodes": ((2, 2), "SLURM_STEP_NUM_NODES"),
        "shared_console": (True, "Slurm"),
        "master": ("gpu01:20001", "SLURM_STEP_NODELIST"),
        "rank": (1, "SLURM_NODEID"),
        "job_id": ("1.0", "SLURM_JOB_ID"),
        "log_dir": ("log/1.0", "SLURM_JOB_ID"),
        "grace": (28.0, "Slurm"),
    }
    assert request.line.notes == ("Slurm: 2 nodes, which join at gpu01:20001",)


def test_the_script_of_an_allocation_runs_alone_and_says_so(asked):
    request = asked("", SCRIPT)

    assert make_nodes(request.settings, SCRIPT) is None
    assert request.settings["log_dir"] == "log/12"
    assert request.line.notes == (
        "Slurm: not started by srun; running on this machine alone, not on the 2 nodes of job 12; see --srun",
    )
    assert asked("--nnodes 1", SCRIPT).line.notes == ()
    assert asked("", {**SCRIPT, "SLURM_JOB_NUM_NODES": "1"}).line.notes == ()


@pytest.mark.parametrize(
    ("words", "environ", "dest", "value"),
    [
        ("--rank 0", {}, "rank", 0),
        ("--job_id mine", {}, "job_id", "mine"),
        ("--log_dir mine", {}, "log_dir", "mine"),
        ("--grace 5", {}, "grace", 5.0),
        ("--nproc_per_node 3", {"SLURM_GPUS_ON_NODE": "4"}, "nproc_per_node", 3),
        ("", {"FLOTA_RANK": "0"}, "rank", 0),
        ("", {"FLOTA_GRACE": "5"}, "grace", 5.0),
        ("", {"PADDLE_JOB_ID": "mine"}, "job_id", "mine"),
        ("", {"PET_NPROC_PER_NODE": "3", "SLURM_GPUS_ON_NODE": "4"}, "nproc_per_node", 3),
    ],
)
def test_flags_and_variables_win_over_the_platform(asked, words, environ, dest, value):
    request = asked(words, {**TASK, **environ})

    assert request.settings[dest] == value
    assert request.settings["nnodes"] == (2, 2)


def test_the_config_file_wins_over_the_platform(asked):
    request = asked("", TASK, 'grace = "9s"\njob_id = "mine"\n')

    assert (request.settings["grace"], request.settings["job_id"]) == (9.0, "mine")
    assert request.settings["log_dir"] == "log/1.0"


@pytest.mark.parametrize("words", ["--nnodes 3", "--nnodes 1", "--ips 10.0.0.7", "--standalone"])
@pytest.mark.parametrize("environ", [TASK, {**TASK, "SLURM_NODEID": "odd"}], ids=["good", "odd"])
def test_another_description_of_the_nodes_leaves_only_the_grace_to_the_platform(asked, words, environ):
    request = asked(words, environ)

    flag = words.split()[0]
    assert set(given(request)) - {"grace"} == {flag.removeprefix("--")}
    said = "2 nodes" if environ is TASK else "its variables"
    assert request.line.notes[-1] == f"Slurm: {said} ignored because {flag} is given"


@pytest.mark.parametrize("words", ["", "--nnodes 1", "--max_restart 3"])
@pytest.mark.parametrize("environ", [TASK, SCRIPT], ids=["task", "script"])
def test_attempts_go_on_from_those_of_a_requeued_job(asked, words, environ):
    policy = restart_policy(asked(words, {**environ, "SLURM_RESTART_COUNT": "2"}).settings)

    assert (policy.earlier, policy.limit, policy.last_attempt) == (2, 3, 5)


@pytest.mark.parametrize(("words", "nodes"), [("--nnodes 2", (2, 2)), ("--nnodes 1:4", (1, 4))])
def test_a_number_of_nodes_that_fits_is_combined_with_the_platform(asked, words, nodes):
    request = asked(words, TASK)

    spec = make_nodes(request.settings, TASK)
    assert (spec.least, spec.most, spec.rank, spec.places) == (*nodes, 1, (Place("gpu01", 20001),))


@pytest.mark.parametrize("environ", [{}, {"FLOTA_MASTER": "etcd://10.0.0.9"}], ids=["flag", "variable"])
def test_another_master_is_combined_with_the_platform(asked, environ):
    request = asked("" if environ else "--master etcd://10.0.0.9", {**TASK, **environ})

    spec = make_nodes(request.settings, TASK)
    assert (spec.most, spec.rank, spec.etcd, spec.places) == (2, 1, True, (Place("10.0.0.9", 2379),))
    assert request.line.notes[-1] == "Slurm: 2 nodes, which join at etcd://10.0.0.9"


@pytest.mark.parametrize("environ", [SCRIPT, POD], ids=["script", "pod"])
def test_a_master_without_a_number_of_nodes_is_an_error_where_no_number_is_known(asked, environ):
    with pytest.raises(MasterWithoutNodes):
        make_nodes(asked("--master 10.0.0.7:8090", environ).settings, environ)


def test_nodes_outside_of_the_platform_have_no_other_job_id(asked):
    request = asked("--nnodes 2 --master 10.0.0.7:8090", SCRIPT)

    assert request.settings["job_id"] == "default"
    assert request.settings["grace"] == 28.0


def test_a_pod_that_does_not_know_their_number_needs_it(asked):
    alone, one_of_three = asked("", POD), asked("--nnodes 3", POD)

    assert make_nodes(alone.settings, POD) is None
    assert alone.line.notes[0].startswith("Indexed Job: no variable says how many pods there are; running on this")
    spec = make_nodes(one_of_three.settings, POD)
    assert (spec.most, spec.rank, spec.places) == (3, 2, (Place("train-0.train", 8090),))
    assert make_nodes(asked("", {**POD, "FLOTA_NNODES": "2:3"}).settings, POD).least == 2


def test_a_master_that_the_platform_does_not_know_must_be_named(asked):
    with pytest.raises(NoFirstHost, match="Open MPI starts 4 nodes") as raised:
        asked("", MPI)

    assert raised.value.exit_code == 2
    spec = make_nodes(asked("--master 10.0.0.7:8090", MPI).settings, MPI)
    assert (spec.most, spec.rank, spec.places) == (4, 3, (Place("10.0.0.7", 8090),))


def test_a_bad_value_ends_the_start(asked):
    with pytest.raises(BadPlatformValue, match=r"Slurm's SLURM_NODEID is not a number below .*: `7`") as raised:
        asked("", {**TASK, "SLURM_NODEID": "7"})

    assert raised.value.exit_code == 2


def test_variables_that_are_read_as_flags_are_not_read_twice(asked):
    request = asked("", PYTORCHJOB)

    assert request.line.notes == ()
    assert given(request)["nnodes"] == ((3, 3), "PET_NNODES")
    assert request.settings["grace"] == 28.0
    assert asked("--nnodes 1", PYTORCHJOB).settings["nnodes"] == (1, 1)
    assert given(asked("--master-addr 10.0.0.7", PYTORCHJOB))["nnodes"] == ((3, 3), "PET_NNODES")
    assert not [note for note in asked("--master-addr 10.0.0.7", PYTORCHJOB).line.notes if "Kubeflow" in note]
    with pytest.raises(BadPlatformValue, match="PET_NODE_RANK is not a number below PET_NNODES=3"):
        asked("", {**PYTORCHJOB, "PET_NODE_RANK": "3"})


# Workers.


@pytest.mark.parametrize(
    ("words", "environ", "workers"),
    [
        ("", {"SLURM_GPUS_ON_NODE": "4"}, 4),
        ("", {"SLURM_GPUS_ON_NODE": "4", "CUDA_VISIBLE_DEVICES": "0,1"}, None),
        ("", {"SLURM_GPUS_ON_NODE": "4", "ROCR_VISIBLE_DEVICES": ""}, None),
        ("--devices cpu", {"SLURM_GPUS_ON_NODE": "4"}, None),
        ("--interactive", {"SLURM_GPUS_ON_NODE": "4"}, None),
        ("--run_mode rpc", {"SLURM_GPUS_ON_NODE": "4"}, None),
        ("", {}, None),
    ],
)
def test_a_list_of_devices_is_better_than_their_number(asked, words, environ, workers):
    assert asked(words, {**TASK, **environ}).settings["nproc_per_node"] == workers


def test_roles_are_not_counted_by_the_platform(asked):
    request = asked("--server_num 1 --trainer_num 2", {**SCRIPT, "CUDA_VISIBLE_DEVICES": ""})

    assert request.settings["nproc_per_node"] is None


@pytest.mark.parametrize(
    ("cpus", "workers", "devices", "threads"),
    [(8, 1, False, 8), (8, 2, False, 4), (2, 4, False, 1), (8, 2, True, 1), (0, 1, False, None)],
)
def test_threads_follow_the_cpus_of_the_task(cpus, workers, devices, threads):
    found = find_devices({"CUDA_VISIBLE_DEVICES": "0,1"}) if devices else NO_DEVICES

    assert count_threads("auto", workers, found, cpus) == threads


# One task per rank.


def plan(request: Request):
    spec = make_spec(request)._replace(nodes=None)
    seats = tuple(Seat("", "gpu", "10.0.0.1", Ports(("1",) * spec.workers, "2", "3", "4")) for _ in range(8))
    return plan_workers(spec, Roster(0, 0, seats), 7)


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr("flota.host.addresses.resolve_own", lambda _: None)
    monkeypatch.setattr("flota.host.addresses.reachable_address", lambda _: "10.0.0.1")


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(
    ("visible", "devices"), [("0,1,2,3", ("3",)), ("3", ("3",)), ("", ())], ids=["all", "own", "none"]
)
def test_a_task_per_rank_is_a_node_with_one_worker_and_slurms_local_rank(asked, visible, devices):
    request = asked("", {**SHARED, "CUDA_VISIBLE_DEVICES": visible})

    (worker,) = plan(request)
    assert request.settings["nnodes"] == (8, 8)
    assert (worker.rank, worker.local_rank, worker.local_size) == (7, 3, 4)
    assert (worker.machine, worker.machines, worker.devices) == (1, 2, devices)
    assert request.line.notes == ("Slurm: 8 tasks on 2 machines, which join at gpu01:20002",)


@pytest.mark.usefixtures("script")
def test_several_workers_of_each_task_are_numbered_in_order(asked):
    workers = plan(asked("--nproc_per_node 2", SHARED))

    assert [worker.local_rank for worker in workers] == [6, 7]
    assert {worker.local_size for worker in workers} == {8}


@pytest.mark.usefixtures("script")
def test_without_shared_machines_each_node_is_a_machine(asked):
    spec = make_spec(asked("", TASK))

    assert spec.share is None
    assert make_spec(asked("", SHARED)).share == MachineShare(3, 4, 1, 2)


def test_a_file_of_hosts_that_cannot_be_read_is_empty(tmp_path):
    (tmp_path / "nodes").write_bytes(b"gpu01\ngpu\xff\n")

    assert read_host_file(str(tmp_path / "nodes")) == "gpu01\ngpu\ufffd\n"
    assert read_host_file(str(tmp_path / "missing")) == ""


def test_spares_are_nodes_of_the_platform(asked):
    by_platform = asked("--spares 1", TASK)
    by_user = asked("--nnodes 1:1 --spares 1", TASK)

    assert by_platform.settings["nnodes"] == (1, 1)
    assert make_nodes(by_platform.settings, {}).rank == -1  # of two nodes, the second
    assert by_user.settings["nnodes"] == (1, 1)
    with pytest.raises(Contradiction, match="no node would work"):
        asked("--spares 2", TASK)
