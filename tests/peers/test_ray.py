"""Jobs on a real Ray cluster: three of Ray's nodes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from .conftest import Peer, collect_orphans, command_of, end_all_but, living_descendants, living_processes, script

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
DEADLINE = 240  # Ray starts its processes slowly while other tests run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment with which Ray's commands find the cluster."""
    ray = Peer("ray", tmp_path_factory.mktemp("cluster"))
    collect_orphans()
    before = living_descendants()
    with tempfile.TemporaryDirectory(prefix="ray-") as short:  # Ray's sockets need a short path
        environ = {"PATH": os.environ["PATH"], "HOME": short, "RAY_TMPDIR": short, "RAY_USAGE_STATS_ENABLED": "0"}
        process = subprocess.Popen(
            [str(ray.bin / "python"), script("ray_cluster.py"), "3"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                yield environ | {"RAY_ADDRESS": process.stdout.readline().strip()}
                process.stdin.close()
                process.wait(60)
            finally:
                end_all_but(before)


class Submitted:
    """A running `flota submit ray`, whose workers say in files when they have started and saved."""

    def __init__(self, environ, directory: Path, *words: str) -> None:
        self.directory = directory
        self._before = living_descendants()
        self.output = directory / "output"
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [str(Peer("ray", directory).bin / "flota"), "submit", "ray", *words],
                cwd=directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, *names: str) -> None:
        self._until(lambda: all((self.directory / name).exists() for name in names), f"no {names}")

    def ends(self) -> int:
        """The exit code, when all processes of the job are gone."""
        self._until(lambda: self.process.poll() is not None, "still running")
        self._until(lambda: not self.left(), "processes are left")
        return self.process.returncode

    def left(self) -> list[str]:
        """Processes of the job, without Ray's own, which may be kept for the next job."""
        new = living_descendants().items() - self._before.items()
        return [command for _, command in new if "flota" in command or "scripts" in command]

    def text(self) -> str:
        return self.output.read_text()

    def saved(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("saved.*"))

    def _until(self, holds, trouble: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while not holds():
            assert time.monotonic() < deadline, f"{trouble}\n{self.left()}\n{self.text()}"
            time.sleep(0.1)


@pytest.fixture
def submit(cluster, tmp_path):
    jobs = []

    def start(*words: str) -> Submitted:
        jobs.append(Submitted(cluster, tmp_path, *words))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.kill()
        job.process.wait()


def test_two_nodes_run_with_the_devices_of_their_bundles(submit):
    job = submit("--nodes", "2", "--gpus", "2", "--console", "all", script("show_environment.py"))

    assert job.ends() == 0, job.text()
    results = sorted(line.partition("RESULT ")[2] for line in job.text().splitlines() if "RESULT" in line)
    assert results == [f"rank={rank} node={rank // 2} of=4 devices=0,1 breakpoint=None token=None" for rank in range(4)]
    assert "all 4 workers finished successfully" in job.text()


def test_a_failure_is_reported_once_and_its_code_returned(submit):
    job = submit("--nodes", "2", script("show_environment.py"), "1")

    assert job.ends() == 7, job.text()
    assert job.text().count("rank 1 on ") == job.text().count("exit code 7") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 75), (signal.SIGKILL, -signal.SIGKILL)])
def test_workers_save_when_the_driver_is_interrupted_or_killed(submit, number, code):
    job = submit("--nodes", "2", script("saves.py"), ".")
    job.wait_for("started.0.0", "started.1.0")

    job.process.send_signal(number)

    assert job.ends() == code, job.text()
    assert job.saved() == ["saved.0", "saved.1"]


def test_a_lost_actor_is_a_lost_node(submit):
    job = submit("--nodes", "1:2", script("saves.py"), ".")
    job.wait_for("started.0.0", "started.1.0")

    os.kill(actor_of(int((job.directory / "started.1.0").read_text())), signal.SIGKILL)

    job.wait_for("started.0.1")
    job.process.send_signal(signal.SIGINT)
    assert job.ends() == 75, job.text()
    assert "node 1 on " in job.text() and " is lost: " in job.text()


def test_several_nodes_may_share_a_host(submit):
    job = submit("--nodes", "5", "--pack", "--console", "all", script("show_environment.py"))

    assert job.ends() == 0, job.text()
    results = sorted(
        line.partition("RESULT ")[2].partition(" dev")[0] for line in job.text().splitlines() if "RESULT" in line
    )
    assert results == [f"rank={rank} node={rank} of=5" for rank in range(5)], job.text()


def test_a_cluster_that_is_not_there_is_one_line(submit):
    job = submit("--address", "127.0.0.1:1", script("saves.py"), ".")

    assert job.ends() == 2
    first, *rest = job.text().splitlines()
    assert first == "flota: error: no Ray cluster at `127.0.0.1:1`: [Errno 111] Connection refused"
    assert len([line for line in rest if line]) == 1  # the hint


def test_a_job_that_does_not_fit_gives_up(submit):
    job = submit("--nodes", "4", "--wait", "8", script("saves.py"), ".")

    assert job.ends() == 75
    assert "waiting for 4 nodes with 1 CPU each; the cluster has places for 3" in job.text()


def test_a_lost_node_of_ray_is_a_lost_node(submit):
    """The last test: the cluster has one node less then."""
    job = submit("--nodes", "1:3", script("saves.py"), ".")
    job.wait_for("started.0.0", "started.1.0", "started.2.0")
    parents = living_processes()
    raylets = [parents[actor_of(int((job.directory / f"started.{rank}.0").read_text()))] for rank in range(3)]
    head = min(raylets)  # it was started first, and serves the driver

    lost = next(pid for pid in raylets[1:] if pid != head)
    for pid in [lost, *descendants_of(lost, parents)]:  # as if the machine had lost power
        os.kill(pid, signal.SIGKILL)

    job.wait_for("started.1.1")
    job.process.send_signal(signal.SIGINT)
    assert job.ends() == 75, job.text()
    assert " is lost: " in job.text()


def descendants_of(pid: int, parents: dict[int, int]) -> list[int]:
    children = [child for child, parent in parents.items() if parent == pid]
    return [*children, *(each for child in children for each in descendants_of(child, parents))]


def actor_of(pid: int) -> int:
    parents = living_processes()
    while not command_of(pid).startswith("ray::"):
        pid = parents[pid]
    return pid
