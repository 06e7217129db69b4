"""How the answers of Kubernetes are read."""

from __future__ import annotations

import pytest

from flota.engines.kubernetes_pods import read_status


def job(*conditions, kind="Job"):
    return {"kind": kind, "metadata": {"name": "train"}, "status": {"conditions": list(conditions)}}


def condition(kind, reason="", message="", status="True"):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(index=0, state=None, last=None, restarts=0, conditions=()):
    container = {"name": "flota", "restartCount": restarts, "state": state or {}, "lastState": last or {}}
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"train-{index}-x",
            "uid": f"u{index}",
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "status": {"conditions": list(conditions), "containerStatuses": [{"name": "proxy"}, container]},
    }


def ended(code, message="", reason="Error"):
    return {"terminated": {"exitCode": code, "message": message, "reason": reason}}


def status(*items):
    return read_status({"items": list(items)})


RUNNING = {"running": {"startedAt": "2026-11-18T00:00:00Z"}}


def test_a_job_runs_until_a_condition_says_otherwise():
    assert not status(job(), pod(state=RUNNING)).over
    assert not status(job(condition("Failed", status="False"), condition("SuccessCriteriaMet")), pod()).over
    assert status(job(condition("Complete")), pod()).over


def test_a_job_of_a_jobset_does_not_end_it():
    assert not status(job(condition("Complete")), job(kind="JobSet")).over
    assert status(job(kind="Job"), job(condition("Completed"), kind="JobSet")).over


def test_a_deleted_job_is_over_when_its_pods_are_gone():
    assert not status(pod(state=RUNNING)).over
    assert status().over


def test_the_reason_of_a_failure_is_known():
    found = status(job(condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")))

    assert found.condition == "Failed"
    assert found.reason == "BackoffLimitExceeded: Job has reached the specified backoff limit"


def test_the_exit_code_is_that_of_the_first_node_that_failed():
    found = status(job(), pod(2, ended(9)), pod(0, ended(0)), pod(1, RUNNING, last=ended(7), restarts=1))

    assert found.code == 7
    assert [one.node for one in found.pods] == [0, 1, 2]


def test_a_restarted_container_is_another_instance():
    first, second = status(pod(state=RUNNING)).pods[0], status(pod(state=RUNNING, last=ended(1), restarts=1)).pods[0]

    assert first.instance != second.instance
    assert (first.running, first.started, first.code) == (True, True, None)
    assert (second.running, second.started, second.code) == (True, True, 1)


def test_a_pod_that_nothing_is_known_of_has_not_started():
    bare = {"kind": "Pod", "metadata": {"name": "train-0-x", "uid": "u0"}}

    (found,) = status(job(), bare).pods
    assert (found.node, found.started, found.code, found.trouble) == (0, False, None, None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            pod(conditions=[condition("PodScheduled", "Unschedulable", "0/3 nodes: no gpu\nmore", status="False")]),
            "train-0-x: Unschedulable: 0/3 nodes: no gpu",
        ),
        (
            pod(state={"waiting": {"reason": "ErrImagePull", "message": "not found"}}),
            "train-0-x: ErrImagePull: not found",
        ),
        (pod(state={"waiting": {"reason": "ImagePullBackOff"}}), "train-0-x: ImagePullBackOff"),
        (
            pod(state={"waiting": {"reason": "CreateContainerConfigError", "message": "no secret"}}),
            "train-0-x: CreateContainerConfigError: no secret",
        ),
    ],
)
def test_trouble_that_may_pass_is_reported_in_one_line(given, words):
    (found,) = status(job(), given).pods

    assert found.trouble.words == words
    assert not found.trouble.final


@pytest.mark.parametrize(
    "given",
    [
        pod(state=ended(1, "Traceback …\n/usr/bin/python3: No module named flota\n")),
        pod(
            state={"waiting": {"reason": "CrashLoopBackOff"}},
            last=ended(1, "python3: No module named flota"),
            restarts=1,
        ),
        pod(state=ended(128, 'exec: "python3": executable file not found in $PATH: unknown', "StartError")),
    ],
)
def test_an_image_without_flota_is_recognized(given):
    (found,) = status(job(), given).pods

    assert found.trouble.final
    assert "--pip REQUIREMENT" in found.trouble.hint


@pytest.mark.parametrize(
    "given",
    [
        pod(state={"waiting": {"reason": "ContainerCreating"}}),
        pod(state={"waiting": {"reason": "CrashLoopBackOff"}}, last=ended(1, "ValueError: x"), restarts=1),
        pod(state=ended(1, "FileNotFoundError: [Errno 2] no such file or directory: data")),
        pod(state=ended(0, "No module named flota")),
    ],
)
def test_other_states_are_no_trouble_of_the_pod(given):
    assert status(job(), given).pods[0].trouble is None
