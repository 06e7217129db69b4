"""Objects of `flota submit kubernetes` in a real API server with real controllers, where their programs are installed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.lab.kubernetes import WHY_MISSING, ControlPlane, missing_programs
from tests.launching import wait_until

pytestmark = pytest.mark.skipif(bool(missing_programs()), reason=WHY_MISSING)


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture
def submit(plane, flota):
    def submit(*words):
        (flota.directory / "train.py").write_text("print(1)\n")
        env = {"KUBECONFIG": str(plane.kubeconfig), "PATH": f"{plane.programs}:{os.environ['PATH']}"}
        return flota.run("submit", "kubernetes", "--image", "python:3.12", *words, "train.py", env=env)

    return submit


@pytest.mark.parametrize(
    "words",
    [
        ("--nodes", "3"),
        ("--nodes", "3", "--fixed"),
        ("--nodes", "2:3", "--restart_policy", "never"),
        ("--pip", "flota", "--gpus", "8", "--cpu", "16", "--memory", "64Gi"),
    ],
    ids=" ".join,
)
def test_the_api_server_accepts_the_printed_manifest(plane, submit, words):
    manifest = submit(*words, "--dry_run").stdout

    created = plane.kubectl(
        "create", "--dry-run=server", "--validate=strict", "--filename=-", "--output=name", text=manifest
    )

    assert created.split() == ["secret/train", "configmap/train", "service/train", "job.batch/train"]


def test_the_api_server_accepts_the_example(plane):
    example = Path(__file__).parents[2] / "examples" / "kubernetes" / "job.yaml"

    created = plane.kubectl("create", "--dry-run=server", "--validate=strict", f"--filename={example}", "--output=name")

    assert created.split() == ["secret/train", "service/train", "job.batch/train"]


def test_each_pod_has_its_index_and_one_delete_removes_all(plane, submit):
    result = submit("--nodes", "3", "--job_id", "lab")
    assert result.returncode == 0, result.stderr
    wait_until(lambda: len(plane.items("pods")) == 3, "pods")

    hosts = sorted(pod["spec"]["hostname"] for pod in plane.items("pods"))
    plane.kubectl("delete", "job", "lab", "--wait=false")

    assert hosts == ["lab-0", "lab-1", "lab-2"]
    left = ("jobs", "pods", "secrets", "services", "configmaps")
    wait_until(
        lambda: not [name for kind in left for name in plane.names(kind) if name.startswith("lab")], "removal", 60
    )


def test_a_second_job_of_the_same_name_is_refused(plane, submit):
    assert submit("--job_id", "twice").returncode == 0

    result = submit("--job_id", "twice")

    assert result.returncode == 2
    assert "job `twice` already exists" in result.stderr
    assert json.loads(plane.kubectl("get", "job", "twice", "--output=json"))["spec"]["suspend"] is False
