"""A real Kubernetes control plane runs jobs of `flota submit kubernetes`. Pods are processes on hosts of a lab."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.lab import Lab, missing
from tests.lab.kubelet import Kubelets
from tests.lab.kubernetes import WHY_MISSING, ControlPlane, missing_programs
from tests.launching import COMMAND, environment, wait_until
from tests.netns.jobs import STANDS_IN, Job

REASON = missing() or (WHY_MISSING if missing_programs() else "")
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
KINDS = ("jobs", "pods", "secrets", "services", "configmaps")
PATIENCE = 90.0  # seconds
PRINTS = """import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], open("data/a.txt").read())
"""


class Cluster(NamedTuple):
    lab: Lab
    plane: ControlPlane
    kubelets: Kubelets

    def popen(self, *words: object, cwd: Path) -> subprocess.Popen[str]:
        env = environment(
            {"KUBECONFIG": str(self.plane.kubeconfig), "PATH": f"{self.plane.programs}:{os.environ['PATH']}"}
        )
        argv = [str(word) for word in (COMMAND, "submit", "kubernetes", "--image", "python:3.12", *words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def submit(self, job: Job, *words: object) -> None:
        """Start a job of workers that wait for commands."""
        words = ("--job_id", job.name, *words, "--env", f"STAGE={job.stage}", STANDS_IN)
        process = self.popen(*words, cwd=job.stage)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err

    def condition(self, job: Job) -> str:
        """How the Job has ended, if it has."""
        status = self.plane.call("GET", f"/apis/batch/v1/namespaces/default/jobs/{job.name}").get("status", {})
        found = [one for one in status.get("conditions", []) if one["status"] == "True"]
        return next((one["type"] for one in found if one["type"] in ("Complete", "Failed")), "")

    def wait_until_complete(self, job: Job) -> None:
        wait_until(lambda: self.condition(job), "the end of the Job", PATIENCE)
        assert self.condition(job) == "Complete"

    def left(self, name: str) -> list[str]:
        return [f"{kind}/{one}" for kind in KINDS for one in self.plane.names(kind) if one.startswith(name)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with (
        Lab(3) as lab,
        ControlPlane(tmp_path_factory.mktemp("plane")) as plane,
        Kubelets(plane, lab.hosts, tmp_path_factory.mktemp("pods")) as kubelets,
    ):
        yield Cluster(lab, plane, kubelets)


@pytest.fixture
def job(cluster, tmp_path):
    made = Job(cluster.lab, tmp_path)
    yield made
    cluster.plane.kubectl("delete", "job", made.name, "--ignore-not-found", "--wait=false")
    wait_until(lambda: not cluster.left(made.name), f"{made.name} to be gone", PATIENCE)


def test_pods_on_three_machines_run_one_job_to_its_end(cluster, job):
    (job.stage / "data").mkdir()
    (job.stage / "data" / "a.txt").write_text("content of a file")
    (job.stage / "train.py").write_text(PRINTS)

    process = cluster.popen(
        *("--job_id", job.name, "--nodes", 3, "--file", "data/a.txt", "--console", "all", "--follow", "train.py"),
        cwd=job.stage,
    )
    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0, err
    assert "rank 0 of 3 content of a file\n" in out
    assert f"job {job.name} has completed" in err
    assert {pod["spec"]["nodeName"] for pod in cluster.plane.items("pods")} == {"host1", "host2", "host3"}


def test_one_report_of_a_failure_is_in_the_logs_of_all_pods(cluster, job):
    cluster.submit(job, "--nodes", 2, "--fixed", "--restart_policy", "never", "--retries", 0)
    job.round(0, 2)

    job.fail(1)

    wait_until(lambda: cluster.condition(job) == "Failed", "the end of the Job", PATIENCE)
    logs = cluster.plane.kubectl("logs", "--selector", f"flota/job={job.name}", "--tail=-1")
    assert logs.count("failed first: exit code 7") == 1


@pytest.mark.parametrize(("code", "reason"), [(2, "PodFailurePolicy"), (7, "FailedIndexes")])
def test_the_exit_code_of_a_pod_decides_how_the_job_goes_on(cluster, job, code, reason):
    process = cluster.popen(
        *("--job_id", job.name, "--nodes", 2, "--fixed", "--restart_policy", "never", "--retries", 0),
        *("--follow", "--env", f"STAGE={job.stage}", STANDS_IN),
        cwd=job.stage,
    )
    job.round(0, 2)

    job.fail(1, code)

    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert f"job {job.name} has failed: {reason}" in err


def test_a_killed_flota_comes_back_into_its_seat(cluster, job):
    cluster.submit(job, "--nodes", 3)
    first = job.settle(3)
    pod = cluster.kubelets.running(job.name)[1]

    pod.process.kill()

    again = job.settle(3, after=first.number)
    assert pod.restarts == 1
    assert again.hosts == first.hosts
    job.finish()
    cluster.wait_until_complete(job)


def test_a_drained_pod_is_replaced_and_the_job_goes_on(cluster, job):
    cluster.submit(job, "--nodes", 3, "--elastic_timeout", "2s")
    first = job.settle(3)
    drained = cluster.kubelets.running(job.name)[2].pod["metadata"]

    cluster.plane.kubectl("delete", "pod", drained["name"], "--wait=false")

    job.settle(3, after=first.number)
    assert cluster.kubelets.running(job.name)[2].pod["metadata"]["uid"] != drained["uid"]
    assert cluster.kubelets.running(job.name)[0].restarts == 0
    job.finish()
    cluster.wait_until_complete(job)


def test_an_elastic_job_follows_the_scale_of_its_job(cluster, job):
    def scale(count):
        patch = f'{{"spec": {{"parallelism": {count}, "completions": {count}}}}}'
        cluster.plane.kubectl("patch", "job", job.name, "--type=merge", f"--patch={patch}")

    cluster.submit(job, "--nodes", "1:3", "--elastic_timeout", "2s")
    first = job.settle(3)

    scale(2)
    second = job.settle(2, after=first.number)
    scale(3)
    job.settle(3, after=second.number)

    job.finish()
    cluster.wait_until_complete(job)


def test_a_deleted_job_stops_its_workers_and_leaves_nothing(cluster, job):
    cluster.submit(job, "--nodes", 2)
    number = job.settle(2).number

    cluster.plane.kubectl("delete", "job", job.name, "--wait=false")

    wait_until(lambda: not cluster.left(job.name), "all objects to be gone", PATIENCE)
    assert sorted(job.notes("stopped", number)) == [0, 1]  # SIGTERM came first
    assert not [pid for host in cluster.lab.hosts for pid in host.processes()]
