"""A real Slurm starts the nodes: with srun, with sbatch, and with flota's own commands for both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from flota.platforms.reading import FIRST_PORT, PORTS
from tests.lab import Lab, missing
from tests.lab import slurm as slurm_lab
from tests.lab.slurm import Slurm
from tests.launching import script, wait_until
from tests.strangers import STRANGERS, taken_port

pytestmark = pytest.mark.skipif(bool(missing() or slurm_lab.missing()), reason=str(missing() or slurm_lab.missing()))
EXAMPLES = Path(__file__).parents[2] / "examples"
FLOTA = [sys.executable, "-m", "flota"]
SHOWS = """
import json, os, sys
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK FLOTA_JOB_ID".split()
facts = {name: os.environ[name] for name in names} | {"host": os.uname().nodename}
name = f"{os.environ.get('SLURM_ARRAY_TASK_ID', 'rank')}.{os.environ['RANK']}"
with open(f"new.{name}", "w") as file:
    json.dump(facts, file)
os.rename(f"new.{name}", name)
sys.exit(7 if os.environ["RANK"] in sys.argv[1:] else 0)
"""

WAITS_FOR_A_SPARE = """
import os, pathlib, time
deadline = time.monotonic() + 60
while not any("is a spare" in path.read_text() for path in pathlib.Path(os.environ["FLOTA_LOG_DIR"]).glob("*.log")):
    assert time.monotonic() < deadline
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def slurm():
    with Lab(4) as lab:
        yield Slurm(lab)


@pytest.fixture
def here(tmp_path):
    (tmp_path / "shows.py").write_text(SHOWS)
    return tmp_path


def ranks(directory, name="rank"):
    paths = sorted(directory.glob(f"{name}.*"), key=lambda path: int(path.suffix[1:]))
    return [json.loads(path.read_text()) for path in paths]


def end(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out + err


def submit(slurm, here, *words):
    code, text = end(slurm.popen(*FLOTA, "submit", "slurm", *words, cwd=here))
    assert code == 0, text
    return text.partition("submitted Slurm job ")[2].partition(";")[0]


def find_flota(slurm):
    """The flota that has started srun."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in slurm.lab.host(1).processes()}
    [pid] = [pid for pid, words in lines.items() if b"--srun" in words and b"flota" in words[:3]]
    return pid


def wait_for_files(here, *names):
    for name in names:
        wait_until((here / name).exists, name, 60)


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_task_per_node_needs_no_flags(slurm, here, nodes):
    code, text = end(
        slurm.popen("srun", "-N", nodes, "--ntasks-per-node=1", *FLOTA, "--nproc_per_node", 2, "shows.py", cwd=here)
    )

    assert code == 0, text
    found = ranks(here)
    assert [one["RANK"] for one in found] == [str(rank) for rank in range(2 * nodes)]
    assert {one["WORLD_SIZE"] for one in found} == {str(2 * nodes)}
    assert [one["NODE_RANK"] for one in found] == [str(rank // 2) for rank in range(2 * nodes)]
    assert len({one["host"] for one in found}) == nodes


def test_spares_are_a_part_of_the_allocation(slurm, here):
    (here / "waits.py").write_text(WAITS_FOR_A_SPARE + SHOWS)
    srun = ("srun", "-N", 3, "--ntasks-per-node=1")

    code, text = end(slurm.popen(*srun, *FLOTA, "--spares", 1, "--nproc_per_node", 2, "waits.py", cwd=here))

    assert code == 0, text
    assert [one["RANK"] for one in ranks(here)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_task_per_rank_has_slurms_ranks(slurm, here, nodes):
    code, text = end(slurm.popen("srun", "-N", nodes, "--ntasks-per-node=2", *FLOTA, "shows.py", cwd=here))

    assert code == 0, text
    found = [(one["RANK"], one["LOCAL_RANK"], one["LOCAL_WORLD_SIZE"], one["NODE_RANK"]) for one in ranks(here)]
    assert found == [(str(rank), str(rank % 2), "2", str(rank // 2)) for rank in range(2 * nodes)]
    hosts = [one["host"] for one in ranks(here)]
    assert hosts[::2] == hosts[1::2]
    assert len(set(hosts)) == nodes


@pytest.mark.parametrize("stranger", ["silent", "http"])
def test_a_stranger_on_the_masters_port_does_not_stop_a_job(slurm, here, stranger):
    holder = slurm.popen("salloc", "-N", 2, "--ntasks-per-node=1", "--no-shell", cwd=here)
    _, said = end(holder)
    job = said.partition("Granted job allocation ")[2].split()[0]
    port = FIRST_PORT + int(job) % PORTS
    taken = slurm.lab.host(1).call(socket.create_server, (slurm.lab.host(1).address, port))
    with taken_port(STRANGERS[stranger], taken):
        code, text = end(slurm.popen("srun", "--jobid", job, *FLOTA, "shows.py", cwd=here))
    slurm.run("scancel", job)

    assert code == 0, text
    assert [one["RANK"] for one in ranks(here)] == ["0", "1"]
    assert f"port {port} is in use by pid {os.getpid()}" in text


# Two components, which Slurm numbers in this order, and lists by name.
COMPONENTS = ("-n2", "-w", "host3", ":", "-N2", "-n2", "-w", "host[1-2]")


def test_a_heterogeneous_step_is_one_job(slurm, here):
    step = ("srun", "--het-group=0,1", *FLOTA, "shows.py")
    code, text = end(slurm.popen("salloc", *COMPONENTS, *step, cwd=here))

    assert code == 0, text
    assert [(one["host"], one["LOCAL_RANK"], one["LOCAL_WORLD_SIZE"]) for one in ranks(here)] == [
        ("host3", "0", "2"),
        ("host3", "1", "2"),
        ("host1", "0", "1"),
        ("host2", "0", "1"),
    ]


def test_a_step_of_one_component_says_that_there_are_others(slurm, here):
    code, text = end(slurm.popen("salloc", *COMPONENTS, "srun", "-n1", *FLOTA, "shows.py", cwd=here))

    assert code == 0, text
    assert "flota: Slurm: this step has 1 of the 3 nodes of the job; see srun's --het-group\n" in text


def test_srun_in_a_heterogeneous_allocation_uses_all_components(slurm, here):
    code, text = end(slurm.popen("salloc", *COMPONENTS, *FLOTA, "--srun", "shows.py", cwd=here))

    assert code == 0, text
    assert [one["host"] for one in ranks(here)] == ["host3", "host1", "host2"]


def test_a_failure_is_sruns_exit_code(slurm, here):
    code, text = end(slurm.popen("srun", "-N", 2, "--ntasks-per-node=1", *FLOTA, "shows.py", "1", cwd=here))

    assert code == 7, text
    assert text.count("rank 1 on host2 failed first: exit code 7") == 1  # not once for each node


def test_a_submitted_job_is_followed_to_its_exit_code(slurm, here):
    code, text = end(slurm.popen(*FLOTA, "submit", "slurm", "--nodes", 2, "--follow", "shows.py", "0", cwd=here))

    assert code == 7, text
    assert "rank 0 on host" in text
    assert "has ended: FAILED" in text
    assert "accepts anyone" not in text  # it has a token, by its environment
    assert "FLOTA_TOKEN" not in (here / "log" / "shows.sbatch").read_text()


def test_the_batch_script_of_the_examples_trains_on_two_nodes(slurm, here):
    shutil.copy(EXAMPLES / "slurm" / "train.sbatch", here)
    shutil.copy(EXAMPLES / "plain_python" / "train.py", here)
    path = f"{Path(sys.executable).parent}:{slurm_lab.PLACES}"

    code, text = end(slurm.popen("sbatch", "--wait", "train.sbatch", cwd=here, env=slurm.environ(PATH=path)))

    [output] = here.glob("slurm-*.out")
    assert code == 0, text + output.read_text()
    assert "y = 3.00 x + -2.00" in output.read_text()
    assert output.read_text().count("all 2 workers finished successfully") == 1
    assert "accepts anyone" not in output.read_text()


def test_the_jobs_of_an_array_do_not_meet(slurm, here):
    job = submit(slurm, here, "--nodes", 1, "--array", "0-2", "shows.py")

    wait_for_files(here, "0.0", "1.0", "2.0")

    assert {ranks(here, number)[0]["FLOTA_JOB_ID"].partition(".")[0] for number in "012"} == {
        f"{job}_{number}" for number in "012"
    }


def test_a_cancelled_job_saves(slurm, here):
    job = submit(slurm, here, "--nodes", 2, script("yields.py"), "saves")
    wait_for_files(here, "going.0", "going.1")

    slurm.run("scancel", job)

    wait_for_files(here, "saved.0", "saved.1")
    assert (here / "saved.0").read_text() == (here / "saved.1").read_text()


def test_a_preempted_job_saves_and_is_queued_again(slurm, here):
    job = submit(slurm, here, "--nodes", 2, "--preempt_signal", "SIGUSR1", script("yields.py"), "saves")
    wait_for_files(here, "going.0", "going.1")

    slurm.run("scancel", "--signal=USR1", job)

    wait_for_files(here, "saved.0", "saved.1")
    wait_until(lambda: "Restarts=1" in slurm.run("scontrol", "show", "job", job), "a requeue", 90)
    slurm.run("scancel", job)


def test_ranks_save_before_the_allocation_ends(slurm, here):
    words = ("srun", "-N", 2, "--ntasks-per-node=1", "--time=1", *FLOTA, "--stop_before", "50s")

    code, text = end(slurm.popen(*words, script("yields.py"), "saves", cwd=here))

    assert code == 75, text  # 10 s after the start; squeue has said when the minute is over
    assert (here / "saved.0").read_text() == (here / "saved.1").read_text()


def test_a_fixed_size_job_that_loses_a_node_is_queued_again(slurm, here):
    wait_until(lambda: slurm.idle() == 4, "nodes that earlier tests have used", 60)
    job = submit(slurm, here, "--nodes", 2, script("yields.py"), "ignores")
    wait_for_files(here, "going.0", "going.1")
    last = slurm.hosts(job)[-1]

    slurm.lab.cut(last)
    try:
        wait_until(lambda: "Restarts=1" in slurm.run("scontrol", "show", "job", job), "a requeue", 90)
    finally:
        slurm.lab.heal(last)
        slurm.run("scancel", job)

    assert f"host{last} was lost" in (here / "log" / f"slurm-{job}.out").read_text()
    wait_until(lambda: slurm.idle() == 4, "the lost node to be back", 90)


def follow(slurm, here):
    """A followed job whose ranks run, and its number."""
    process = slurm.popen(
        *FLOTA, "submit", "slurm", "--nodes", 2, "--follow", script("yields.py"), "saves", cwd=here, bufsize=1
    )
    job = process.stderr.readline().partition("submitted Slurm job ")[2].partition(";")[0]
    wait_for_files(here, "going.0", "going.1")
    return process, job


def test_one_ctrl_c_leaves_a_followed_job_running(slurm, here):
    process, job = follow(slurm, here)

    process.send_signal(signal.SIGINT)

    code, text = end(process)
    assert code == 0, text
    assert f"detached: Slurm job {job} keeps running" in text
    assert slurm.state(job) == "RUNNING"
    slurm.run("scancel", job)


def test_two_ctrl_c_stop_a_followed_job_for_good(slurm, here):
    process, job = follow(slurm, here)

    process.send_signal(signal.SIGINT)
    said = ""
    while "Ctrl-C again" not in said:
        said = process.stderr.readline()
    process.send_signal(signal.SIGINT)

    code, text = end(process)
    assert code == 75, text
    assert (here / "saved.0").read_text() == (here / "saved.1").read_text()
    assert slurm.state(job) not in ("PENDING", "RUNNING", "REQUEUED")  # it is not queued again


TRIES_AGAIN = """
import os, sys
attempt = os.environ["FLOTA_ATTEMPT"]
with open("attempts", "a") as file:
    file.write(attempt)
sys.exit(75 if attempt == "0" else 0)
"""


def test_a_requeued_job_goes_on_counting_attempts(slurm, here):
    (here / "tries.py").write_text(TRIES_AGAIN)

    job = submit(slurm, here, "--nodes", 1, "tries.py")

    wait_until(lambda: slurm.state(job) == "COMPLETED", "the second run", 120)
    assert (here / "attempts").read_text() == "01"


def test_a_job_with_spare_nodes_goes_on_without_a_lost_one(slurm, here):
    wait_until(lambda: slurm.idle() == 4, "nodes that earlier tests have used", 60)  # so that it gets host1 and host2
    job = submit(slurm, here, "--nodes", "1:2", "--elastic_timeout", "1s", script("yields.py"), "ignores")
    wait_for_files(here, "going.0", "going.1")
    log = here / "log" / f"slurm-{job}.out"
    last = slurm.hosts(job)[-1]  # the first one runs the script
    before = log.read_text().count(": 1 node")  # if one was late

    slurm.lab.cut(last)
    try:
        wait_until(lambda: log.read_text().count(": 1 node") > before, "a round with one node")
    finally:
        slurm.lab.heal(last)
        slurm.run("scancel", job)


def test_srun_is_used_inside_an_allocation(slurm, here):
    code, text = end(slurm.popen("salloc", "-N", 2, "--ntasks-per-node=1", *FLOTA, "--srun", "shows.py", cwd=here))

    assert code == 0, text
    assert [one["RANK"] for one in ranks(here)] == ["0", "1"]


def test_without_srun_flota_tells_about_it(slurm, here):
    code, text = end(slurm.popen("salloc", "-N", 2, *FLOTA, "shows.py", cwd=here))

    assert code == 0, text
    assert "; see --srun" in text


def test_ctrl_c_stops_a_step_gracefully(slurm, here):
    process = slurm.popen(
        "salloc", "-N", 2, "--ntasks-per-node=1", *FLOTA, "--srun", script("yields.py"), "saves", cwd=here
    )
    wait_for_files(here, "going.0", "going.1")

    os.kill(find_flota(slurm), signal.SIGINT)

    code, text = end(process)
    assert code == 75, text
    assert text.count("asking all ranks to save and exit") == 1  # not once for each node
    assert (here / "saved.0").read_text() == (here / "saved.1").read_text()
