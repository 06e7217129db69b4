"""The objects of a job on Kubernetes, checked against the schemas of Kubernetes."""

from __future__ import annotations

import base64

import kubernetes_validate
import pytest

from flota.engines.kubernetes import OPTIONS
from flota.engines.kubernetes_manifest import (
    LIMIT,
    SentFile,
    fit_grace,
    job_name,
    make_job,
    make_parts,
    make_template,
)
from flota.errors import BadValue, Contradiction
from flota.errors.engines import FilesTooLarge
from tests.unit.engines import JOB as COMMON_JOB

VERSIONS = ("1.31", "1.36")  # the first with a successPolicy that is not an experiment, and a recent one
JOB = COMMON_JOB._replace(words=("--nproc_per_node=8", "train.py", "--lr", "0.1"), directory="/home/alice")
FILES = (SentFile("train.py", b"print(1)\n"), SentFile("conf/a.yaml", b"a: 1\n"))


def options_of(**chosen):
    return {**{option.name.replace("-", "_"): option.default for option in OPTIONS}, "image": "python:3.12", **chosen}


def objects(job=JOB, files=FILES, **chosen):
    """All objects by kind."""
    options = options_of(**chosen)
    name = job_name(job, jobset=options["jobset"])
    template = make_template(job, options, name, files)
    found = [*make_parts(options, name, job.token, files), make_job(job, options, name, template)]
    return {one["kind"]: one for one in found}


def pod_of(found):
    spec = found["Job"]["spec"] if "Job" in found else found["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    return spec["template"]["spec"]


def container_of(found):
    return pod_of(found)["containers"][0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"fixed": True},
        {"files": ()},
        {"gpus": 8, "cpu": "16", "memory": "64Gi", "namespace": "ml"},
        {"restart_policy": "never"},
        {"pip": "flota", "files": (SentFile("run", b"\xff\x00", executable=True),)},
        {"jobset": True},
        {"jobset": True, "restart_policy": "never"},
    ],
    ids=str,
)
def test_every_object_is_valid(version, chosen):
    found = objects(**chosen)
    if "JobSet" in found:  # an extension, for which there is no schema; the Job in it has one
        replicated = found.pop("JobSet")["spec"]["replicatedJobs"][0]
        found["Job"] = {"apiVersion": "batch/v1", "kind": "Job", **replicated["template"], "metadata": {"name": "a"}}

    for one in found.values():
        kubernetes_validate.validate(one, version, strict=True)


def test_a_job_has_one_pod_per_node_with_an_index_and_a_name():
    found = objects()

    spec = found["Job"]["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert pod_of(found)["subdomain"] == found["Service"]["metadata"]["name"] == "train"
    assert found["Service"]["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"flota/job": "train"},
        "ports": [{"name": "master", "port": 29400}],
    }
    assert spec["template"]["metadata"]["labels"] == {"flota/job": "train"}


def test_flota_gets_its_place_from_variables():
    by_name = {one["name"]: one.get("value") or one["valueFrom"] for one in container_of(objects())["env"]}

    assert by_name == {
        "FLOTA_MASTER": "train-0.train:29400",
        "FLOTA_NNODES": "3:4",
        "FLOTA_RANK": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}},
        "FLOTA_TOKEN": {"secretKeyRef": {"name": "train", "key": "token"}},
        "FLOTA_SHARED_CONSOLE": "true",  # one failure report in `kubectl logs --selector`
    }


@pytest.mark.parametrize(
    ("nodes", "chosen", "value"),
    [
        ((4, 4), {}, "3:4"),
        ((2, 2), {}, "1:2"),
        ((1, 1), {}, "1"),
        ((4, 4), {"fixed": True}, "4"),
        ((2, 4), {}, "2:4"),
    ],
)
def test_a_job_continues_without_one_node_unless_its_size_is_given(nodes, chosen, value):
    found = objects(JOB._replace(least=nodes[0], most=nodes[1]), **chosen)

    assert {"name": "FLOTA_NNODES", "value": value} in container_of(found)["env"]
    assert ("successPolicy" in found["Job"]["spec"]) == (":" in value)


def test_a_fixed_range_is_a_contradiction():
    with pytest.raises(Contradiction, match="--nodes 2:4"):
        objects(JOB._replace(least=2), fixed=True)


def test_the_token_is_in_the_secret_alone():
    found = objects()

    assert found.pop("Secret")["stringData"] == {"token": "secret-token"}
    assert "secret-token" not in str(found)


def test_a_failed_flota_is_restarted_in_its_pod():
    found = objects(retries=2)

    assert pod_of(found)["restartPolicy"] == "OnFailure"
    assert found["Job"]["spec"]["backoffLimit"] == 8  # Kubernetes counts the restarts of all pods together
    assert "podFailurePolicy" not in found["Job"]["spec"]  # which Kubernetes accepts only with restartPolicy Never


def test_with_new_pods_exit_codes_decide():
    spec = objects(restart_policy="never", retries=2)["Job"]["spec"]

    rules = [(rule["action"], rule.get("onExitCodes", {}).get("values")) for rule in spec["podFailurePolicy"]["rules"]]
    assert rules == [("FailJob", [2]), ("Ignore", [75]), ("Ignore", None)]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["backoffLimitPerIndex"] == 2
    assert "backoffLimit" not in spec


@pytest.mark.parametrize(
    ("times", "grace"),
    [({}, 32), ({"grace": 60.0}, 62), ({"grace": 0.5}, 3), ({"preempt_timeout": 300.0}, 302)],
)
def test_the_kubelet_waits_longer_than_flota(times, grace):
    assert pod_of(objects(JOB._replace(**times)))["terminationGracePeriodSeconds"] == grace


def test_a_patched_grace_decides_flotas():
    template = {
        "spec": {
            "terminationGracePeriodSeconds": 10,
            "containers": [{"name": "flota", "args": ["a.py"]}, {"name": "b"}],
        }
    }

    fit_grace(template, JOB)

    assert template["spec"]["containers"] == [{"name": "flota", "args": ["--grace=8s", "a.py"]}, {"name": "b"}]
    with pytest.raises(Contradiction):
        fit_grace(template, JOB._replace(grace=10.0))


def test_no_shell_comes_between_the_kubelet_and_flota_unless_pip_has_to_run():
    plain, installing = container_of(objects()), container_of(objects(pip="flota==0.1"))

    assert plain["command"] == ["python3", "-m", "flota"]
    assert plain["args"] == installing["args"] == ["--nproc_per_node=8", "train.py", "--lr", "0.1"]
    assert installing["command"][:2] == ["sh", "-c"]
    assert '&& exec python3 -m flota "$@"' in installing["command"][2]
    assert installing["command"][3] == "flota==0.1"


@pytest.mark.parametrize(
    ("word", "written"), [("$(HOME)", "$$(HOME)"), ("a$$b", "a$$$$b"), ("${rank}", "${rank}"), ("$1", "$1")]
)
def test_kubernetes_replaces_nothing_in_the_users_words(word, written):
    assert container_of(objects(JOB._replace(words=("train.py", word))))["args"] == ["train.py", written]


def test_resources_are_requested_and_limited():
    found = objects(gpus=8, cpu="16", memory="64Gi", gpu_resource="amd.com/gpu")

    assert container_of(found)["resources"] == {
        "requests": {"cpu": "16", "memory": "64Gi"},
        "limits": {"cpu": "16", "memory": "64Gi", "amd.com/gpu": 8},
    }
    assert "resources" not in container_of(objects())


def test_files_are_beside_the_script_in_a_directory_that_can_be_written():
    found = objects()

    assert found["ConfigMap"]["data"] == {"train.py": "print(1)\n", "conf.a.yaml": "a: 1\n"}
    container = container_of(found)
    assert container["workingDir"] == "/job"
    assert container["volumeMounts"] == [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "work", "mountPath": "/job"},
        {"name": "files", "mountPath": "/job/train.py", "subPath": "train.py"},
        {"name": "files", "mountPath": "/job/conf/a.yaml", "subPath": "conf.a.yaml"},
    ]
    assert {"name": "work", "emptyDir": {}} in pod_of(found)["volumes"]


def test_files_with_similar_names_have_keys_of_their_own():
    files = tuple(SentFile(path, path.encode()) for path in ("a/b.py", "a.b.py", "a b.py", "a_b.py"))

    data = objects(files=files)["ConfigMap"]["data"]

    assert sorted(data.values()) == sorted(file.path for file in files)


def test_a_program_is_executable_and_need_not_be_text():
    found = objects(files=(SentFile("run", b"\x7fELF\xff", executable=True),))

    assert base64.b64decode(found["ConfigMap"]["binaryData"]["run"]) == b"\x7fELF\xff"
    assert {"name": "files", "configMap": {"name": "train", "defaultMode": 0o755}} in pod_of(found)["volumes"]


def test_a_job_of_the_image_keeps_the_images_directory():
    found = objects(files=())

    assert "ConfigMap" not in found
    assert "workingDir" not in container_of(found)


def test_files_that_do_not_fit_are_an_error():
    with pytest.raises(FilesTooLarge, match="1 MiB"):
        objects(files=(SentFile("train.py", b"#" * (LIMIT + 1)),))


def test_a_jobset_names_its_pods_itself():
    found = objects(jobset=True)

    assert "Service" not in found
    assert "subdomain" not in pod_of(found)
    assert {"name": "FLOTA_MASTER", "value": "train-node-0-0.train:29400"} in container_of(found)["env"]


@pytest.mark.parametrize(
    ("job_id", "name"),
    [
        ("exp1", "exp1"),
        ("My_Run.v2", "my-run-v2"),
        ("--x--", "x"),
        ("2024-run", "job-2024-run"),
        ("a" * 80, "a" * 61),
        (f"{'a' * 60}-bcd", "a" * 60),
    ],
)
def test_names_are_made_such_that_kubernetes_accepts_them(job_id, name):
    assert job_name(JOB._replace(job_id=job_id), jobset=False) == name


def test_the_host_name_of_the_last_pod_has_at_most_63_characters():
    job = JOB._replace(job_id="a" * 80, least=1000, most=1000)

    assert len(f"{job_name(job, jobset=False)}-999") == 63
    assert len(f"{job_name(job, jobset=True)}-node-0-999") == 63


def test_a_name_of_which_nothing_is_left_is_an_error():
    with pytest.raises(BadValue, match="--job_id"):
        job_name(JOB._replace(job_id="训练"), jobset=False)


def test_spares_are_pods_of_the_same_job_whose_size_is_then_fixed():
    found = objects(JOB._replace(spares=2))
    spec, env = found["Job"]["spec"], {row["name"]: row.get("value") for row in container_of(found)["env"]}

    assert (spec["completions"], spec["parallelism"]) == (6, 6)
    assert env["FLOTA_NNODES"] == "4"
    assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
