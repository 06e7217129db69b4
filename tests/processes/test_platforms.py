"""The same command everywhere: processes that a platform has started find each other by its variables."""

from __future__ import annotations

import json
import os
import socket

import pytest

from flota.binding.topology import read_topology
from flota.platforms.reading import FIRST_PORT, PORTS
from flota.platforms.slurm import NEXT
from tests.launching import Flota
from tests.strangers import STRANGERS, taken_port


@pytest.fixture
def job_id() -> str:
    """A job of Slurm whose port is free."""
    for number in range(os.getpid(), os.getpid() + PORTS):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", FIRST_PORT + number % PORTS))
            except OSError:
                continue
        return str(number % PORTS)
    raise AssertionError("no free port")


def task(job_id: str, number: int, tasks: int, machines: int, **more: str) -> dict[str, str]:
    """A task of srun; all machines are this one."""
    per_machine = tasks // machines
    return {
        "SLURM_JOB_ID": job_id,
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number % per_machine),
        "SLURM_NODEID": str(number // per_machine),
        "SLURM_STEP_NUM_NODES": str(machines),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_TASKS_PER_NODE": f"{per_machine}(x{machines})",
        "SLURM_STEP_NODELIST": "127.0.0.1",
        **more,
    }


def dump(flota: Flota, rank: int) -> dict[str, str]:
    env: dict[str, str] = json.loads((flota.directory / f"dump.{rank}.json").read_text())["env"]
    return env


# Rank 0 alone fails: another rank's failure might end it before it has printed.
COUNTS = """
import os, time
names = ("FLOTA_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS")
print("attempt", *map(os.environ.get, names), flush=True)
if os.environ["RANK"] == "0":
    os._exit(3)
time.sleep(600)
"""


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_requeued_job_goes_on_counting_attempts_and_has_all_its_restarts(flota, job_id, nodes):
    (flota.directory / "counts.py").write_text(COUNTS)
    tasks = [task(job_id, n, nodes, nodes, SLURM_RESTART_COUNT="2") for n in range(nodes)]

    running = [flota.start("--max_restart", 1, flota.directory / "counts.py", env=env) for env in tasks]

    outputs = [node.output() for node in running]
    assert [node.wait() for node in running] == [3] * nodes
    assert "".join(out for out, _ in outputs).splitlines() == ["attempt 2 2 3", "attempt 3 3 3"]
    said = "".join(err for _, err in outputs)
    assert "; restarting (1 of 1)" in said
    assert "before that: 1 restart: " in said


@pytest.mark.parametrize("stranger", ["silent", "http"])
@pytest.mark.parametrize(("tasks", "machines"), [(2, 2), (4, 2)], ids=["nodes", "ranks"])
def test_a_stranger_on_the_masters_port_does_not_stop_a_job(flota, job_id, stranger, tasks, machines):
    port = FIRST_PORT + int(job_id) % PORTS
    with taken_port(STRANGERS[stranger], socket.create_server(("127.0.0.1", port))):
        nodes = [flota.start("dumps_env.py", env=task(job_id, n, tasks, machines)) for n in range(tasks)]
        outputs = [node.output(60) for node in nodes]

    assert [node.wait() for node in nodes] == [0] * tasks
    assert [dump(flota, rank)["WORLD_SIZE"] for rank in range(tasks)] == [str(tasks)] * tasks
    said = "".join(err for _, err in outputs)
    assert said.count(f"port {port} is in use by pid {os.getpid()}") == 1
    assert f"the nodes join at 127.0.0.1:{port + NEXT}" in said or port + NEXT >= FIRST_PORT + PORTS


def test_one_task_per_machine_is_a_node_each(flota, job_id):
    nodes = [flota.start("--nproc_per_node", 2, "dumps_env.py", env=task(job_id, n, 2, 2)) for n in range(2)]

    assert [node.wait() for node in nodes] == [0, 0]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "FLOTA_JOB_ID")
    seen = [[dump(flota, rank)[name] for name in names] for rank in range(4)]
    assert seen == [[str(rank), str(rank % 2), "4", "2", str(rank // 2), f"{job_id}.0"] for rank in range(4)]
    assert (flota.directory / "log" / f"{job_id}.0" / "workerlog.3").exists()


def test_one_task_per_rank_keeps_slurms_numbers(flota, job_id):
    seen_by_all = {"CUDA_VISIBLE_DEVICES": "4,5"}
    environs = [task(job_id, number, 4, 2, **seen_by_all) for number in range(4)]

    nodes = [flota.start("dumps_env.py", env=environ) for environ in environs]

    assert [node.wait() for node in nodes] == [0, 0, 0, 0]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "FLOTA_NODES", "FLOTA_DEVICE")
    assert [[dump(flota, rank)[name] for name in names] for rank in range(4)] == [
        ["0", "0", "4", "2", "0", "2", "4"],
        ["1", "1", "4", "2", "0", "2", "5"],
        ["2", "0", "4", "2", "1", "2", "4"],
        ["3", "1", "4", "2", "1", "2", "5"],
    ]
    assert [dump(flota, rank)["FLAGS_selected_gpus"] for rank in range(4)] == ["0", "1", "0", "1"]


@pytest.mark.skipif(len(read_topology().cores) < 2, reason="needs two cores")
def test_tasks_of_one_machine_are_bound_to_different_cpus(flota, job_id):
    train = flota.directory / "train.py"
    train.write_text("import os, json; json.dump([*os.sched_getaffinity(0)], open(os.environ['RANK'], 'w'))")

    nodes = [flota.start("--bind", "core", train, env=task(job_id, n, 2, 1)) for n in range(2)]

    assert [node.wait() for node in nodes] == [0, 0]
    first, second = (set(json.loads((flota.directory / str(rank)).read_text())) for rank in range(2))
    assert first and second and not first & second
    assert first | second == os.sched_getaffinity(0)


def test_a_rank_that_fails_ends_all_tasks_with_its_code(flota, job_id):
    script = flota.directory / "rank1_fails.py"
    script.write_text("import os, time\nif os.environ['RANK'] == '1':\n    raise SystemExit(7)\ntime.sleep(60)\n")

    nodes = [flota.start("rank1_fails.py", env=task(job_id, number, 2, 1)) for number in range(2)]

    assert [node.wait() for node in nodes] == [7, 7]
    report = json.loads((flota.directory / "log" / f"{job_id}.0" / "report.json").read_text())
    assert [(one["rank"], one["local_rank"]) for one in report["failures"]] == [(1, 1)]


def test_the_batch_script_runs_on_its_machine_alone(flota, job_id):
    shell = {"SLURM_JOB_ID": job_id, "SLURM_JOB_NUM_NODES": "2", "SLURM_PROCID": "0", "SLURM_NNODES": "2"}

    result = flota.run("dumps_env.py", env=shell)

    assert result.returncode == 0, result.stderr
    note = f"Slurm: not started by srun; running on this machine alone, not on the 2 nodes of job {job_id}; see --srun"
    assert [line for line in result.stderr.splitlines() if "Slurm" in line] == [f"flota: {note}"]
    assert dump(flota, 0)["WORLD_SIZE"] == "1"


POD = {"JOB_COMPLETION_INDEX": "1", "HOSTNAME": "train-1", "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
RANK = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}


@pytest.mark.parametrize(
    ("environ", "runs"),
    [
        (task("7", 1, 4, 2), "Slurm runs this command 4 times"),
        (RANK, "Open MPI runs this command 2 times"),
        (POD, "Indexed Job runs this command once per task"),
    ],
    ids=["slurm", "mpirun", "pod"],
)
@pytest.mark.parametrize("words", ["submit slurm", "submit kubernetes --image i", "submit ray", "--hosts a,b"])
def test_a_job_is_not_started_once_per_task(flota, environ, runs, words):
    result = flota.run(*words.split(), "--dry_run", "dumps_env.py", env=environ)

    assert result.returncode == 2
    assert result.stdout == ""
    command = "--hosts" if "hosts" in words else "flota " + " ".join(words.split()[:2])
    first = result.stderr.splitlines()[0]
    assert first.startswith(f"flota: error: {command} cannot be used here: {runs}, and each would start a job"), first


def test_a_job_can_be_submitted_by_one_task_and_by_the_shell_of_an_allocation(flota):
    for environ in (task("7", 0, 1, 1), {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_PROCID": "0"}):
        assert flota.run("submit", "slurm", "--dry_run", "dumps_env.py", env=environ).returncode == 0


def test_a_value_that_makes_no_sense_is_one_line(flota, job_id):
    result = flota.run("dumps_env.py", env=task(job_id, 0, 2, 2, SLURM_NODEID="2"))

    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == (
        "flota: error: Slurm's SLURM_NODEID is not a number below SLURM_STEP_NUM_NODES=2: `2`"
    )


def test_processes_of_mpirun_join_where_mpirun_runs(flota, job_id):
    def rank(number: int) -> dict[str, str]:
        return {
            "OMPI_COMM_WORLD_RANK": str(number),
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": str(number),
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "OMPI_MCA_orte_hnp_uri": "1.0;tcp://127.0.0.1:1",
            "PMIX_NAMESPACE": job_id,
        }

    nodes = [flota.start("dumps_env.py", env=rank(number)) for number in range(2)]

    assert [node.wait() for node in nodes] == [0, 0]
    assert [dump(flota, number)["LOCAL_RANK"] for number in range(2)] == ["0", "1"]
    assert dump(flota, 1)["FLOTA_NODES"] == "1"


def test_the_platform_is_shown(flota, job_id):
    inside = flota.run("platform", env=task(job_id, 1, 2, 2))
    outside = flota.run("platform", "--json")

    assert (inside.returncode, outside.returncode) == (0, 0)
    assert inside.stdout.startswith("Slurm, recognized by SLURM_JOB_ID\n")
    assert json.loads(outside.stdout)["platform"] is None
