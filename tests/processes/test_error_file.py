"""TORCHELASTIC_ERROR_FILE for flota itself: its parent reads there why the job failed."""

from __future__ import annotations

import json

import pytest

from tests.launching import COMMAND, WORKERS

VARIABLE = "TORCHELASTIC_ERROR_FILE"


def failing(flota, *words, env=None, file="of/parent.json"):
    """Run a job that fails, and return the message in its parent's file."""
    result = flota.run("--nproc_per_node", 2, *words, env={VARIABLE: str(flota.directory / file), **(env or {})})
    assert result.returncode != 0
    return json.loads((flota.directory / file).read_text())["message"]


@pytest.mark.parametrize("flags", [[], ["--framework", "paddle"]])
def test_what_the_culprit_recorded_is_copied_with_its_exit_code(flota, flags):
    message = failing(flota, *flags, "fails_recorded.py", "main")

    recorded = json.loads((flota.directory / "log" / "error.1.json").read_text())["message"]
    assert recorded["message"] == "ValueError: shard-00017 is torn"
    assert message == {**recorded, "errorCode": 1}


@pytest.mark.parametrize(
    ("how", "summary", "code", "stack"),
    [
        ("raise", "ValueError: planned failure of rank 1", 1, "Traceback (most recent call last):"),
        ("7", "rank 1 exit code 7", 7, "rank 1 is about to fail"),
        ("SIGKILL", "rank 1 SIGKILL", -9, "rank 1 is about to fail"),
    ],
)
def test_a_culprit_that_recorded_nothing_is_described(flota, how, summary, code, stack):
    message = failing(flota, "fails.py", env={"FAIL_HOW": how})

    assert (message["message"], message["errorCode"]) == (summary, code)
    assert stack in message["extraInfo"]["py_callstack"]
    assert message["extraInfo"]["timestamp"].isdecimal()


def test_a_flota_in_a_worker_tells_its_parent(flota):
    inner = f"{COMMAND} --log_dir inner {WORKERS / 'fails.py'}"
    env = {"FAIL_RANK": "0"}

    result = flota.run("--log_dir", "outer", "--nproc_per_node", 1, "--no-python", "sh", "-c", f"{inner} 2>&-", env=env)

    assert result.returncode == 1
    assert "ValueError: planned failure of rank 0" in result.stderr


def test_a_job_that_succeeds_writes_nothing(flota):
    path = flota.directory / "parent.json"

    assert flota.run("dumps_env.py", env={VARIABLE: str(path)}).returncode == 0
    assert not path.exists()
    assert json.loads((flota.directory / "dump.0.json").read_text())["env"][VARIABLE].endswith("/log/error.0.json")


def test_a_file_that_cannot_be_written_is_a_warning(flota):
    (flota.directory / "file").touch()

    result = flota.run("fails.py", env={VARIABLE: str(flota.directory / "file" / "x"), "FAIL_RANK": "0"})

    assert result.returncode == 1
    assert "flota: warning: cannot write the error file" in result.stderr
