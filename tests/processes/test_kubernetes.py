"""`flota submit kubernetes` with a program that stands in for kubectl and the cluster: pods are real flotas."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from flota.engines.kubernetes import OPTIONS
from flota.platforms import find_platforms
from tests.launching import Flota, wait_until
from tests.store.servers import free_ports

PROGRAMS = Path(__file__).parent / "programs"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "kubernetes.md"
PRINTS = """import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:], open("data/a.txt").read())
"""
SAVES = """import signal, time
from pathlib import Path
def save(*_):
    Path("saved").touch()
    raise SystemExit(1)
signal.signal(signal.SIGTERM, save)
Path("training").touch()
time.sleep(60)
"""


class Cluster:
    """A directory with what the cluster knows, and flota on a machine that reaches it."""

    def __init__(self, flota: Flota) -> None:
        self.flota = flota
        self.place = flota.directory / "cluster"
        self.place.mkdir()
        programs = flota.directory / "bin"
        programs.mkdir()
        (programs / "kubectl").write_text(f"#!{sys.executable}\n{(PROGRAMS / 'kubectl').read_text()}")
        (programs / "kubectl").chmod(0o755)
        self.env = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "FAKE_CLUSTER": str(self.place),
            "FAKE_PORT": str(free_ports(1)[0]),
            "FAKE_PYTHON": sys.executable,
        }

    def start(self, *words):
        return self.flota.start("submit", "kubernetes", "--image", "python:3.12", *words, env=self.env)

    def run(self, *words):
        running = self.start(*words)
        out, err = running.output()
        return running.process.returncode, out, err

    def calls(self):
        path = self.place / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def verbs(self):
        return [next(word for word in words if not word.startswith("-")) for words, _ in self.calls()]


@pytest.fixture
def cluster(flota):
    (flota.directory / "data").mkdir()
    (flota.directory / "data" / "a.txt").write_text("content of a file")
    (flota.directory / "show.py").write_text(PRINTS)
    (flota.directory / "save.py").write_text(SAVES)
    (flota.directory / "fail.py").write_text("raise SystemExit(7)\n")
    return Cluster(flota)


def test_pods_become_the_nodes_of_one_job(cluster):
    code, out, err = cluster.run("--nodes", "2", "--file", "data/a.txt", "--follow", "show.py", "--lr", "$(HOME)")

    assert code == 0, err
    assert "rank 0 of 2 --lr $(HOME) content of a file" in out
    assert "job show has completed" in err


def test_one_delete_removes_all(cluster):
    code, _, err = cluster.run("--nodes", "2", "--namespace", "ml", "--fixed", "show.py")

    assert code == 0, err
    assert "`kubectl delete job show`" in err
    assert cluster.verbs() == ["create", "create", "patch"]
    (_, job), (_, rest), _ = cluster.calls()
    assert json.loads(job)["spec"]["suspend"] is True  # until all that pods need is there
    for part in json.loads(rest)["items"]:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "show", "uid": "uid of Job"}
        assert part["metadata"]["ownerReferences"] == [owner]
    assert all("--namespace=ml" in words for words, _ in cluster.calls())


def test_the_token_is_in_no_command_line_and_on_no_screen(cluster):
    code, out, err = cluster.run("show.py")

    token = json.loads((cluster.place / "Secret.json").read_text())["stringData"]["token"]
    assert code == 0
    assert token not in out + err + str([words for words, _ in cluster.calls()])


def test_the_exit_code_of_a_failed_job_is_that_of_its_nodes(cluster):
    code, _, err = cluster.run("--nodes", "2", "--fixed", "--follow", "fail.py")

    assert code == 7
    assert "job fail has failed: FakeReason" in err


def test_two_ctrl_c_stop_the_job_and_workers_save(cluster):
    running = cluster.start("--nodes", "2", "--fixed", "--follow", "save.py")
    wait_until(lambda: len(list(cluster.place.glob("pod*/training"))) == 2, "training to begin")

    running.process.send_signal(signal.SIGINT)
    wait_until(lambda: b"Ctrl-C again" in read_some(running), "the answer to Ctrl-C")
    running.process.send_signal(signal.SIGINT)
    code = running.wait()

    assert code == 143
    assert len(list(cluster.place.glob("pod*/saved"))) == 2
    assert "delete" in cluster.verbs()


def read_some(running):
    return running.process.stderr.read1()


def test_what_cannot_be_created_leaves_nothing_behind(cluster):
    (cluster.place / "fails").write_text('create {"apiVersion": "v1", "kind": "List"|error: quota exceeded\n')

    code, _, err = cluster.run("show.py")

    assert code == 2
    assert "kubectl failed: error: quota exceeded" in err
    assert cluster.verbs() == ["create", "create", "delete"]


def test_a_name_that_is_in_use_is_an_error_with_the_command_that_frees_it(cluster):
    (cluster.place / "fails").write_text('create|Error from server (AlreadyExists): jobs.batch "show" already exists\n')

    code, _, err = cluster.run("show.py")

    assert code == 2
    assert "job `show` already exists" in err
    assert "kubectl delete job show" in err


def test_an_image_without_flota_ends_following(cluster):
    ended = {"exitCode": 1, "message": "/usr/bin/python3: No module named flota"}
    status = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
    (cluster.place / "trouble.json").write_text(json.dumps(status))

    code, _, err = cluster.run("--follow", "show.py")

    assert code == 1
    assert "pod0: /usr/bin/python3: No module named flota" in err
    assert "--pip REQUIREMENT" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "2", "--nnodes", "3", "show.py"), "contradict"),
        (("--nodes", "2:3", "--fixed", "show.py"), "contradict"),
        (("--image=", "show.py"), "needs an image"),
        (("nothing.py",), "no such script"),
        (("../show.py",), "not below the current directory"),
        (("--file", "bin", "show.py"), "Is a directory"),
        (("big.py",), "1 MiB"),
        (("--job_id", "___", "show.py"), "for --job_id: expected"),
        (("--restart_policy", "always", "show.py"), "one of on-failure, never"),
        (("--master", "a:1", "show.py"), "kubernetes chooses it"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_created(cluster, words, message):
    (cluster.flota.directory / "big.py").write_bytes(b"#" * ((1 << 20) + 1))

    code, _, err = cluster.run(*words)

    assert code == 2
    assert message in err.splitlines()[0]
    assert cluster.calls() == []


def test_without_kubectl_only_a_dry_run_is_possible(cluster):
    cluster.env["PATH"] = str(cluster.place)

    assert cluster.run("--dry_run", "show.py")[0] == 0
    code, _, err = cluster.run("show.py")

    assert code == 2
    assert "`kubectl` is not on PATH" in err


def test_the_guide_shows_what_is_created(flota):
    blocks = re.findall(r"```\w+\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (flota.directory / "train.py").write_text(blocks[0])
    at = next(number for number, block in enumerate(blocks) if "--dry_run" in block)

    result = flota.run(*blocks[at].split()[1:])

    assert result.stdout == blocks[at + 1]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_guide_describes_every_option(option):
    name = f"--{option.name.replace('-', '_')} {option.metavar}".strip()

    assert f"| `{name}` | {option.help} |" in GUIDE.read_text()


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_a_patch_is_merged_as_kubernetes_does(cluster):
    cluster.env["PATH"] = str(Path(shutil.which("kubectl") or "").parent)
    patch = cluster.flota.directory / "patch.yaml"
    patch.write_text(
        "spec:\n  nodeSelector: {pool: gpu}\n  terminationGracePeriodSeconds: 12\n  containers:\n"
        "  - name: flota\n    env: [{name: NCCL_DEBUG, value: INFO}]\n"
    )

    code, out, err = cluster.run("--pod_patch", "patch.yaml", "--dry_run", "show.py")

    assert code == 0, err
    pod = list(yaml.safe_load_all(out))[-1]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert {"NCCL_DEBUG", "FLOTA_RANK"} <= {one["name"] for one in pod["containers"][0]["env"]}
    assert pod["containers"][0]["args"] == ["--grace=10s", "show.py"]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
@pytest.mark.parametrize("text", ["spec: [", "speck: {}", None])
def test_a_bad_patch_is_one_line(cluster, text):
    cluster.env["PATH"] = str(Path(shutil.which("kubectl") or "").parent)
    if text:
        (cluster.flota.directory / "patch.yaml").write_text(text)

    code, _, err = cluster.run("--pod_patch", "patch.yaml", "--dry_run", "show.py")

    assert code == 2
    assert "cannot apply `patch.yaml` to the pods" in err.splitlines()[0]


def test_the_manifest_of_the_examples_is_valid_and_describes_two_nodes():
    objects = list(yaml.safe_load_all((GUIDE.parents[2] / "examples" / "kubernetes" / "job.yaml").read_text()))
    secret, service, job = objects

    for one in objects:
        kubernetes_validate.validate(one, "1.31", strict=True)
    spec = job["spec"]["template"]["spec"]
    by_name = {one["name"]: one for one in spec["containers"][0]["env"]}
    assert spec["subdomain"] == service["metadata"]["name"]
    assert by_name["FLOTA_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == secret["metadata"]["name"]
    assert " " in secret["stringData"]["token"]  # which flota refuses: users write their own
    assert int(by_name["FLOTA_NNODES"]["value"]) == job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    pod = {"HOSTNAME": "train-1", "JOB_COMPLETION_INDEX": "1", "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    assert find_platforms(pod)[0][1].master == f"train-0.{spec['subdomain']}:8090"
